// trusted_proxies: which peers are proxies of the operator's own, whose word about the client is
// believed: a list of networks ("10.0.0.0/8, ::1"). From anybody else X-Forwarded-* and Forwarded
// are forgeries and are made anew. A value; immutable once parsed; any thread.
#ifndef CULVERT_SERVER_TRUSTED_PROXIES_H
#define CULVERT_SERVER_TRUSTED_PROXIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { TRUSTED_PROXIES_MAX = 64 };

struct trusted_network {
    uint8_t address[16]; // IPv4 as ::ffff:a.b.c.d
    unsigned bits;       // of 128
};

struct trusted_proxies {
    struct trusted_network networks[TRUSTED_PROXIES_MAX];
    size_t count;
};

// list: addresses or address/bits, separated by commas; empty: nobody. Bits behind the prefix must
// be 0.
MUST_CHECK enum error_code trusted_proxies_parse(struct str list, struct trusted_proxies *out, struct error *err);
// address: numeric, without port. False for what is no address.
bool trusted_proxies_have(const struct trusted_proxies *proxies, struct str address);

#endif
