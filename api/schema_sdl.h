// schema_sdl: api/schema.graphql, compiled into the binary.
#ifndef CULVERT_API_SCHEMA_SDL_H
#define CULVERT_API_SCHEMA_SDL_H

#include <stddef.h>

extern const char api_schema_sdl[]; // NUL-terminated
extern const size_t api_schema_sdl_bytes;

#endif
