// bus_signature: what shows that a message in RabbitMQ was written by a replica of this deployment:
// HMAC-SHA256 by a key derived from the deployment key, over the exchange, the shard and the body.
// It travels in the header x-culvert-signature as 64 hex digits, so that versions that do not know
// it read the body as before. A message whose signature is missing or wrong is not looked into.
// Played back, a genuine one changes nothing: rows yield only to what is newer, and bus_unacked
// refuses what is older than the tombstones that record it. Pure; any thread.
#ifndef CULVERT_SERVER_BUS_BUS_SIGNATURE_H
#define CULVERT_SERVER_BUS_BUS_SIGNATURE_H

#include "base/purpose_key.h"

#define BUS_SIGNATURE_HEADER "x-culvert-signature"

enum { BUS_SIGNATURE_TEXT_BYTES = 2 * PURPOSE_KEY_MAC_BYTES + 1 };

// out: text with its NUL.
void bus_signature_make(const struct purpose_key *key, struct str exchange, unsigned shard, struct str body,
                        char out[BUS_SIGNATURE_TEXT_BYTES]);
bool bus_signature_is_good(const struct purpose_key *key, struct str exchange, unsigned shard, struct str body,
                           struct str signature);

#endif
