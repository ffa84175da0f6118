#include "server/proxy/request_id.h"

#include "base/clock.h"
#include "base/hash.h"

// splitmix64.
static uint64_t next(uint64_t *state)
{
    return hash_end(*state += 0x9e3779b97f4a7c15ull);
}

static char *add_hex(char *out, uint64_t value, unsigned digits)
{
    while (digits > 0)
        *out++ = "0123456789abcdef"[value >> 4 * --digits & 15];
    return out;
}

void request_id_make(uint64_t seed[2], char *out)
{
    uint64_t ms = (uint64_t)clock_wall_ms();
    uint64_t high = next(&seed[0]), low = next(&seed[1]);
    out = add_hex(out, ms >> 16, 8);
    *out++ = '-';
    out = add_hex(out, ms, 4);
    *out++ = '-';
    out = add_hex(out, 0x7000 | (high & 0xfff), 4);
    *out++ = '-';
    out = add_hex(out, 0x8000 | (low >> 48 & 0x3fff), 4);
    *out++ = '-';
    out = add_hex(out, low, 12);
    *out = '\0';
}

bool request_id_is_sound(struct str id)
{
    if (id.len == 0 || id.len >= REQUEST_ID_BYTES) return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == '.';
        if (!ok) return false;
    }
    return true;
}
