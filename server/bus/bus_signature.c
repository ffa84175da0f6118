#include "server/bus/bus_signature.h"

#include <stdio.h>

#include "base/parse.h"

enum { PARTS = 3, NUMBER_BYTES = 16 };

static void take_apart(struct str exchange, unsigned shard, struct str body, char number[NUMBER_BYTES],
                       struct str out[PARTS])
{
    int len = snprintf(number, NUMBER_BYTES, "%u", shard);
    out[0] = exchange;
    out[1] = str_of(number, (size_t)len);
    out[2] = body;
}

void bus_signature_make(const struct purpose_key *key, struct str exchange, unsigned shard, struct str body,
                        char out[BUS_SIGNATURE_TEXT_BYTES])
{
    struct str parts[PARTS];
    char number[NUMBER_BYTES];
    uint8_t mac[PURPOSE_KEY_MAC_BYTES];
    take_apart(exchange, shard, body, number, parts);
    purpose_key_sign(key, parts, PARTS, mac);
    format_hex(mac, sizeof mac, out);
}

bool bus_signature_is_good(const struct purpose_key *key, struct str exchange, unsigned shard, struct str body,
                           struct str signature)
{
    struct str parts[PARTS];
    char number[NUMBER_BYTES];
    uint8_t mac[PURPOSE_KEY_MAC_BYTES];
    if (signature.len != 2 * sizeof mac || parse_hex(signature, mac, sizeof mac, NULL) != ERROR_NONE) return false;
    take_apart(exchange, shard, body, number, parts);
    return purpose_key_verify(key, parts, PARTS, str_of((const char *)mac, sizeof mac));
}
