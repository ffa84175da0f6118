// Redis URLs: what is taken names one place that can be dialled, and written out again it names the
// same.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "storage/redis/redis_address.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static size_t put_encoded(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (const char *p = text ? text : ""; *p; p++)
        n += (size_t)snprintf(out + n, size - n, "%%%02x", (unsigned char)*p);
    return n;
}

static void check_again(const struct redis_address *address)
{
    struct redis_address again;
    char url[2 * 4096 + 64];
    size_t n = 0;
    if (address->path) {
        n = (size_t)snprintf(url, sizeof url, "unix://%s?db=%u", address->path, address->database);
    } else {
        bool v6 = strchr(address->host, ':') != NULL;
        n = (size_t)snprintf(url, sizeof url, address->tls ? "rediss://" : "redis://");
        n += put_encoded(url + n, sizeof url - n, address->user);
        if (address->password) {
            url[n++] = ':';
            n += put_encoded(url + n, sizeof url - n, address->password);
            url[n++] = '@';
        }
        n += (size_t)snprintf(url + n, sizeof url - n, "%s%s%s:%u/%u", v6 ? "[" : "", address->host, v6 ? "]" : "",
                              address->port, address->database);
    }
    assert(n < sizeof url);
    assert(redis_address_init(&again, url, NULL, true, NULL) == ERROR_NONE);
    assert(same_text(again.path, address->path) && same_text(again.host, address->host));
    assert(same_text(again.password, address->password) && same_text(again.user, address->user) &&
           again.tls == address->tls && again.database == address->database);
    assert(again.port == address->port);
    redis_address_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct redis_address address;
    struct error err = {0};
    if (len > 4096) return 0;
    AUTO_FREE char *url = mem_strndup((const char *)at, len);
    enum error_code code = redis_address_init(&address, url, NULL, len % 2, &err);
    assert(code == ERROR_NONE || ((code == ERROR_INVALID || code == ERROR_TOO_LARGE) && err.text[0] != '\0'));
    if (code != ERROR_NONE) return 0;
    assert((address.path != NULL) != (address.host != NULL));
    assert(address.path ? address.path[0] == '/' : address.host[0] != '\0' && address.port > 0);
    assert(address.database <= 1023);
    if (address.password) assert(strlen(address.password) <= 1024);
    // Encoded, it is three times as long, and the limit is on that.
    size_t longest = address.password ? strlen(address.password) : 0;
    if (address.user && strlen(address.user) > longest) longest = strlen(address.user);
    if (3 * longest <= 1024) check_again(&address);
    redis_address_finish(&address);
    return 0;
}
