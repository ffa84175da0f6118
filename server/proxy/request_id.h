// request_id: names for requests that bring none: UUIDs of version 7 (RFC 9562 section 5.7), unique
// and sortable, but made from a counter under a random start: they are shown, never relied on as
// secrets.
#ifndef CULVERT_SERVER_REQUEST_ID_H
#define CULVERT_SERVER_REQUEST_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { REQUEST_ID_BYTES = 65 }; // a client's own may have 64 characters

// seed: 16 random bytes once, changed by each call. out has room for 37 bytes.
void request_id_make(uint64_t seed[2], char *out);
// May a client's own be used: 1 to 64 of [A-Za-z0-9._-]?
bool request_id_is_sound(struct str id);

#endif
