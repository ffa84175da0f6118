#include "agent/tunnel/proxy_exclude.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/parse.h"

struct address {
    size_t bytes; // 4 or 16; 0: not an address
    uint8_t at[16];
};

static struct address read_address(struct str s)
{
    struct address a = {.bytes = 0};
    char text[INET6_ADDRSTRLEN];
    if (s.len > 2 && s.at[0] == '[' && s.at[s.len - 1] == ']') s = str_of(s.at + 1, s.len - 2);
    if (!s.len || s.len >= sizeof(text) || str_has_byte(s, '\0')) return a;
    memcpy(text, s.at, s.len);
    text[s.len] = '\0';
    if (inet_pton(AF_INET, text, a.at) == 1)
        a.bytes = 4;
    else if (inet_pton(AF_INET6, text, a.at) == 1)
        a.bytes = 16;
    return a;
}

static bool same_bits(const struct address *a, const struct address *b, uint64_t bits)
{
    size_t whole = (size_t)bits / 8, rest = (size_t)bits % 8;
    if (a->bytes != b->bytes || memcmp(a->at, b->at, whole) != 0) return false;
    return !rest || (a->at[whole] ^ b->at[whole]) >> (8 - rest) == 0;
}

// "host:port", "[v6]:port": cuts the port off. An address of version 6 without brackets has none.
static bool cut_port(struct str *entry, uint16_t *out_port)
{
    size_t colon = entry->len;
    unsigned colons = 0;
    for (size_t i = 0; i < entry->len; i++) {
        if (entry->at[i] != ':') continue;
        colon = i;
        colons++;
    }
    bool bracketed = colons && colon && entry->at[colon - 1] == ']';
    uint64_t port = 0;
    *out_port = 0;
    if (!colons || (colons > 1 && !bracketed)) return true;
    if (parse_u64(str_from(*entry, colon + 1), 1, 65535, &port, NULL)) return false;
    *out_port = (uint16_t)port;
    entry->len = colon;
    return true;
}

static struct str without_dot(struct str name)
{
    if (name.len > 1 && name.at[name.len - 1] == '.') name.len--;
    return name;
}

static bool name_covers(struct str entry, struct str host)
{
    if (str_starts(entry, STR("*."))) entry = str_from(entry, 1);
    if (entry.len && entry.at[0] == '.') entry = str_from(entry, 1);
    entry = without_dot(entry);
    host = without_dot(host);
    if (!entry.len || entry.len > host.len) return false;
    if (!str_eq_nocase(str_from(host, host.len - entry.len), entry)) return false;
    return entry.len == host.len || host.at[host.len - entry.len - 1] == '.';
}

static bool matches(struct str entry, struct str host, const struct address *address, uint16_t port)
{
    struct str bits_text = entry, network_text;
    if (str_eq(entry, STR("*"))) return true;
    if (str_cut(&bits_text, '/', &network_text)) {
        struct address network = read_address(network_text);
        uint64_t bits;
        if (!network.bytes || parse_u64(bits_text, 0, network.bytes * 8, &bits, NULL)) return false;
        return same_bits(&network, address, bits);
    }
    uint16_t only_port;
    if (!cut_port(&entry, &only_port) || (only_port && only_port != port)) return false;
    struct address named = read_address(entry);
    if (named.bytes || address->bytes) return named.bytes && same_bits(&named, address, named.bytes * 8);
    return name_covers(entry, host);
}

bool proxy_exclude_matches(struct str list, struct str host, uint16_t port)
{
    struct address address = read_address(host);
    size_t start = 0;
    for (size_t i = 0; i <= list.len; i++) {
        bool separator = i == list.len || list.at[i] == ',' || list.at[i] == ' ' || list.at[i] == '\t';
        if (!separator) continue;
        if (i > start && matches(str_of(list.at + start, i - start), host, &address, port)) return true;
        start = i + 1;
    }
    return false;
}
