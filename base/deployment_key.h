// deployment_key: the secret that all replicas of one installation share and that no database, cache or broker holds: a
// file with 32 or more random bytes. Nothing uses it as it is: each use derives a key of its own from it by HKDF
// (RFC 5869, SHA-256) under the name of its purpose, so that no two uses can be played against each other. Two keys may
// be given: the current one makes all that is new, the previous one is accepted as well while keys are rotated
// (docs/operations.md). Immutable once loaded, so any thread; base/purpose_key.h signs and encrypts.
#ifndef CULVERT_BASE_DEPLOYMENT_KEY_H
#define CULVERT_BASE_DEPLOYMENT_KEY_H

#include "base/error.h"
#include "base/purpose_key.h"

enum {
    DEPLOYMENT_KEY_BYTES_MIN = 32,
    DEPLOYMENT_KEY_BYTES_MAX = 4096,
    DEPLOYMENT_KEY_DISTINCT_MIN = 8, // different byte values: a file of zeros or "xxxx" is no key
};

struct deployment_key;

// file: the current key; previous_file: NULL or "" for none. One newline at the end does not count. ERROR_INVALID with
// the path and what is wrong: cannot be read, not a regular file, readable by others or writable by the group (modes
// 0600, 0400 and 0440 are fine), shorter than 32 bytes, longer than 4096, not random. Blocking file reads: at start.
MUST_CHECK enum error_code deployment_key_load(const char *file, const char *previous_file, struct deployment_key **out,
                                               struct error *err);
void deployment_key_destroy(struct deployment_key *key); // NULL is fine; overwrites it first

// Writes a new random key to a file that must not exist yet, mode 0600: 64 hex digits and a newline.
MUST_CHECK enum error_code deployment_key_create_file(const char *file, struct error *err);

// The keys of one purpose, for example "redis answers". A purpose never changes its meaning and no two uses share one.
void deployment_key_derive(const struct deployment_key *key, const char *purpose, struct purpose_key *out);

#endif
