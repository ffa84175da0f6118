// schema_sdl: the schema, joined of api/common.graphql and modules/<noun>/<noun>.graphql at build
// (modules/join_schema.awk), and the stored routes of REST, joined of modules/<noun>/<noun>.rest
// (api/rest/stored_route.h). Both are compiled into the binary.
#ifndef CULVERT_MODULES_SCHEMA_SDL_H
#define CULVERT_MODULES_SCHEMA_SDL_H

#include <stddef.h>

extern const char schema_sdl[]; // NUL-terminated
extern const size_t schema_sdl_bytes;
extern const char rest_routes[];
extern const size_t rest_routes_bytes;

#endif
