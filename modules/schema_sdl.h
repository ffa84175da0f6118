// schema_sdl: the schema, joined of api/common.graphql and modules/<noun>/<noun>.graphql at build
// (modules/join_schema.awk) and compiled into the binary.
#ifndef CULVERT_MODULES_SCHEMA_SDL_H
#define CULVERT_MODULES_SCHEMA_SDL_H

#include <stddef.h>

extern const char schema_sdl[]; // NUL-terminated
extern const size_t schema_sdl_bytes;

#endif
