// Lists of trusted networks, a line feed, an address: what is taken can be written out and read again, and whether the
// address is inside is the same as bit by bit.
#undef NDEBUG // the checks are the point
#include <arpa/inet.h>
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "server/proxy/trusted_proxies.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_again(const struct trusted_proxies *proxies)
{
    struct trusted_proxies again;
    struct strbuf list;
    strbuf_init(&list, 64 * 1024);
    for (size_t i = 0; i < proxies->count; i++) {
        char text[INET6_ADDRSTRLEN];
        assert(proxies->networks[i].bits <= 128);
        assert(inet_ntop(AF_INET6, proxies->networks[i].address, text, sizeof text));
        strbuf_addf(&list, "%s %s/%u", i ? "," : "", text, proxies->networks[i].bits);
    }
    assert(!list.overflow);
    assert(trusted_proxies_parse(strbuf_str(&list), &again, NULL) == ERROR_NONE && again.count == proxies->count);
    for (size_t i = 0; i < again.count; i++)
        assert(memcmp(again.networks[i].address, proxies->networks[i].address, 16) == 0 &&
               again.networks[i].bits == proxies->networks[i].bits);
    strbuf_finish(&list);
}

static bool is_inside(const struct trusted_network *network, const uint8_t address[16])
{
    for (unsigned i = 0; i < network->bits; i++)
        if (((network->address[i / 8] ^ address[i / 8]) >> (7 - i % 8)) & 1) return false;
    return true;
}

// The same as IPv4, mapped into IPv6, and as IPv6.
static bool is_listed(const struct trusted_proxies *proxies, const char *text)
{
    uint8_t address[16] = {[10] = 0xff, [11] = 0xff};
    if (inet_pton(AF_INET, text, address + 12) != 1 && inet_pton(AF_INET6, text, address) != 1) return false;
    for (size_t i = 0; i < proxies->count; i++)
        if (is_inside(&proxies->networks[i], address)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str address = str_of((const char *)at, len), list;
    struct trusted_proxies proxies;
    struct error err = {0};
    char text[64] = "";
    str_cut(&address, '\n', &list);
    enum error_code code = trusted_proxies_parse(list, &proxies, &err);
    assert(code == ERROR_NONE || ((code == ERROR_INVALID || code == ERROR_TOO_LARGE) && err.text[0] != '\0'));
    if (code != ERROR_NONE) return 0;
    check_again(&proxies);
    if (address.len >= sizeof text || str_has_byte(address, '\0')) return 0;
    memcpy(text, address.at ? address.at : "", address.len);
    assert(trusted_proxies_have(&proxies, address) == is_listed(&proxies, text));
    return 0;
}
