// Any bytes as Accept, Accept-Encoding and a query string: a choice is one of those there are, and
// a decoded field is not longer than it was sent and holds no NUL.
#include <stdint.h>
#include <stdlib.h>

#include "api/http/negotiation.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str text = str_of((const char *)at, len), value = STR_EMPTY;
    struct arena *arena = arena_create(0);
    struct error err = {0};
    if (negotiate_media(text) > GRAPHQL_MEDIA_RESPONSE || negotiate_coding(text) > CODING_ZSTD) abort();
    enum error_code code = query_field(text, STR("query"), arena, &value, &err);
    if (code != ERROR_NONE ? !err.text[0] : value.len > len) abort();
    if (value.len && str_has_byte(value, '\0')) abort();
    arena_destroy(arena);
    return 0;
}
