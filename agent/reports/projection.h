// projection: the part of an object that is worth telling. What the API server and controllers rewrite without
// meaning (managedFields, resourceVersion, reconciledAt, leases in annotations) is dropped, so that an object whose
// hash is the same has not changed for anybody who looks at it. Pure; any thread.
#ifndef CULVERT_AGENT_PROJECTION_H
#define CULVERT_AGENT_PROJECTION_H

#include <jansson.h>
#include <stdint.h>

#include "base/id.h"

// Changes object in place.
void projection_apply(json_t *object);
// Canonical JSON (sorted keys, no white space) and its SHA-256. The caller owns the text.
char *projection_text(const json_t *object, size_t *out_len, uint8_t out_hash[ID_SHA256_BYTES]);

#endif
