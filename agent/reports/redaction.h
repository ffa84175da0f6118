// redaction: what may leave the cluster. Values that can be secret are replaced by a keyed digest ("hmac-sha256:" and
// 32 hex digits): the same value in the same place gives the same digest, so changes are seen and values are not, and
// without the key, which never leaves the cluster, a digest cannot be guessed back. Owned by the reporter; any thread
// once made.
//
// Allow-list: of a Secret only what is named goes (identity, type, labels, keys). Everywhere else: data of ConfigMaps,
// values of `env` and other name/value pairs, `args`, `command`, script sources, Helm values and members with a
// secret's name are digested; last-applied-configuration and managedFields go at any depth; in every other text,
// credentials in URLs, bearer tokens, JWTs, private keys, `password=...` and rejected values quoted by error messages
// are masked, and messages are cut to 4 KiB.
#ifndef CULVERT_AGENT_REDACTION_H
#define CULVERT_AGENT_REDACTION_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

struct redaction;

enum { REDACTION_KEY_BYTES = 32, REDACTION_TEXT_BYTES_MAX = 4096, REDACTION_DIGEST_BYTES = 45 };

// folder: where the key is kept (`redaction.key`, mode 0600, made when absent), so that digests stay the same over
// restarts; "" or NULL: a key of this process. NULL with *err when the file cannot be read, made or trusted.
struct redaction *redaction_create(const char *folder, struct error *err);
struct redaction *redaction_create_with_key(const uint8_t key[REDACTION_KEY_BYTES]);
void redaction_destroy(struct redaction *redaction); // NULL is fine

// Changes an object of the Kubernetes API in place.
void redaction_apply(const struct redaction *redaction, json_t *object);
// Masks what looks like a credential inside a text; out's own limit holds.
void redaction_scrub(struct str text, struct strbuf *out);

#endif
