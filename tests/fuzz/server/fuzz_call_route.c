// Routes: host, a line feed, target. Whatever comes out names one account and one runtime that stand in the input, and
// a path that no server on the way reads as another one.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

#include "server/proxy/call_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_path(struct str path)
{
    struct str rest, segment;
    bool more = true;
    assert(path.len > 0 && path.at[0] == '/');
    (void)str_cut(&path, '?', &rest);
    rest = str_from(rest, 1);
    while (more) {
        char decoded[64];
        size_t n = 0;
        more = str_cut(&rest, '/', &segment);
        for (size_t i = 0; i < segment.len && n < sizeof decoded - 1; i++) {
            unsigned byte = (unsigned char)segment.at[i];
            if (byte == '%') {
                char hex[3] = {segment.at[i + 1], segment.at[i + 2], '\0'};
                assert(isxdigit((unsigned char)hex[0]) && isxdigit((unsigned char)hex[1]));
                assert(sscanf(hex, "%x", &byte) == 1);
                i += 2;
            }
            assert(byte != '/' && byte != '\\' && byte >= 0x20 && byte != 0x7f);
            decoded[n++] = (char)byte;
        }
        decoded[n] = '\0';
        assert(n > 0 || !more);
        assert(strcmp(decoded, ".") != 0 && strcmp(decoded, "..") != 0 && strncmp(decoded, "..;", 3) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str target = str_of((const char *)at, len);
    struct str host;
    struct call_route route;
    if (!str_cut(&target, '\n', &host)) return 0;
    enum error_code code =
        call_route_parse(host, target, STR("tunnels.example"), STR("platform.example"), &route, NULL);
    assert(code == ERROR_NONE || code == ERROR_INVALID || code == ERROR_NOT_FOUND);
    if (code != ERROR_NONE) return 0;
    struct str runtime = str_c(route.runtime);
    assert(runtime.len > 0 && runtime.len < CALL_RUNTIME_BYTES);
    check_path(route.path);
    if (route.platform_host) {
        assert(route.account_id[0] == '\0' && !route.webhook);
        assert(memmem(target.at, target.len, runtime.at, runtime.len));
        assert(str_starts_nocase(host, STR("platform.example")));
        return 0;
    }
    assert(strlen(route.account_id) == 24 && host.len > 25 + runtime.len);
    assert(str_eq_nocase(str_first(host, 24), str_c(route.account_id)));
    assert(str_eq_nocase(str_first(str_from(host, 25), runtime.len), runtime));
    assert(str_starts_nocase(str_from(host, 25 + runtime.len), STR(".tunnels.example")));
    assert(str_eq(route.path, target));
    return 0;
}
