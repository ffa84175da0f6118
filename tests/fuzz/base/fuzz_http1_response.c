// Response heads, for a request with or without a body to its answer (the first byte chooses).
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "base/http1/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct http1_head head;
    size_t bytes = 0;
    if (len == 0) return 0;
    struct str method = at[0] % 2 ? STR("HEAD") : STR("GET");
    const char *text = (const char *)at + 1;
    enum error_code code = http1_parse_response(text, len - 1, 0, method, &head, &bytes, NULL);
    assert(code == ERROR_NONE || code == ERROR_AGAIN || code == ERROR_INVALID || code == ERROR_TOO_LARGE);
    if (code != ERROR_NONE) return 0;
    assert(bytes <= len - 1 && head.status >= 100 && head.status <= 599);
    bool none = at[0] % 2 || head.status < 200 || head.status == 204 || head.status == 304;
    assert(none == (head.body == HTTP1_BODY_NONE));
    assert(head.body != HTTP1_BODY_UNTIL_CLOSE || !head.keep_alive);
    for (size_t i = 0; i < head.header_count; i++)
        assert(http1_is_token(head.headers[i].name) && http1_is_field_value(head.headers[i].value));
    for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 16) {
        struct http1_head part;
        size_t part_bytes;
        assert(http1_parse_response(text, cut, 0, method, &part, &part_bytes, NULL) == ERROR_AGAIN);
    }
    return 0;
}
