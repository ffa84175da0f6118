#include "server/proxy/trusted_proxies.h"

#include <arpa/inet.h>
#include <string.h>

enum { V4_PREFIX_BITS = 96 };

static bool parse_ip(struct str text, uint8_t out[16], bool *out_v4)
{
    char name[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof name || str_has_byte(text, '\0')) return false;
    memcpy(name, text.at, text.len);
    name[text.len] = '\0';
    *out_v4 = inet_pton(AF_INET, name, out + 12) == 1;
    if (*out_v4) {
        memset(out, 0, 10);
        out[10] = out[11] = 0xff;
        return true;
    }
    return inet_pton(AF_INET6, name, out) == 1;
}

static bool bit_at(const uint8_t address[16], unsigned i)
{
    return address[i / 8] & (0x80u >> i % 8);
}

static bool parse_bits(struct str text, unsigned max, unsigned *out)
{
    unsigned bits = 0;
    if (text.len == 0 || text.len > 3) return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') return false;
        bits = bits * 10 + (unsigned)(text.at[i] - '0');
    }
    if (bits > max) return false;
    *out = bits;
    return true;
}

static enum error_code parse_network(struct str text, struct trusted_network *out, struct error *err)
{
    struct str rest = text, address;
    bool has_bits = str_cut(&rest, '/', &address), v4 = false;
    unsigned bits = 0;
    if (!parse_ip(address, out->address, &v4))
        return error_set(err, ERROR_INVALID, "\"%.*s\" is no IP network", STR_ARG(str_first(text, 64)));
    unsigned width = v4 ? 32 : 128;
    if (!has_bits)
        bits = width;
    else if (!parse_bits(rest, width, &bits))
        return error_set(err, ERROR_INVALID, "\"%.*s\" is no IP network", STR_ARG(str_first(text, 64)));
    out->bits = bits + (v4 ? V4_PREFIX_BITS : 0);
    for (unsigned i = out->bits; i < 128; i++)
        if (bit_at(out->address, i))
            return error_set(err, ERROR_INVALID, "\"%.*s\" has bits behind its prefix", STR_ARG(str_first(text, 64)));
    return ERROR_NONE;
}

enum error_code trusted_proxies_parse(struct str list, struct trusted_proxies *out, struct error *err)
{
    struct trusted_proxies proxies = {0};
    struct str element;
    bool more = str_trim(list).len > 0;
    while (more) {
        more = str_cut(&list, ',', &element);
        if (proxies.count == TRUSTED_PROXIES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "more than %d networks", TRUSTED_PROXIES_MAX);
        enum error_code code = parse_network(str_trim(element), &proxies.networks[proxies.count], err);
        if (code != ERROR_NONE) return code;
        proxies.count++;
    }
    *out = proxies;
    return ERROR_NONE;
}

static bool is_inside(const struct trusted_network *network, const uint8_t address[16])
{
    unsigned whole = network->bits / 8, left = network->bits % 8;
    if (memcmp(network->address, address, whole) != 0) return false;
    if (left == 0) return true;
    uint8_t mask = (uint8_t)(0xff00u >> left);
    return (address[whole] & mask) == network->address[whole];
}

bool trusted_proxies_have(const struct trusted_proxies *proxies, struct str address)
{
    uint8_t bytes[16];
    bool v4;
    if (proxies->count == 0 || !parse_ip(address, bytes, &v4)) return false;
    for (size_t i = 0; i < proxies->count; i++)
        if (is_inside(&proxies->networks[i], bytes)) return true;
    return false;
}
