// manifest_known: which manifests this process has written, or found written, a moment ago, so that
// they need not be packed and sent again. A bounded memory: what it has forgotten is written again,
// which changes nothing. Nothing is known of a server to which a connection was lost since (it may
// be another one by now, restored from an older backup), and nothing for longer than
// MANIFEST_KNOWN_MS: manifests that no row names are taken away an hour after they were last
// touched. Any thread.
#ifndef CULVERT_STORAGE_MANIFESTS_MANIFEST_KNOWN_H
#define CULVERT_STORAGE_MANIFESTS_MANIFEST_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/str.h"

enum { MANIFEST_KNOWN_MS = 10 * 60 * 1000, MANIFEST_KNOWN_ENTRIES = 128 * 1024 };

struct manifest_known;

struct manifest_known *manifest_known_create(void);
void manifest_known_destroy(struct manifest_known *known); // NULL is fine
// `server` is whatever changes when another server may answer. known: NULL knows nothing and learns
// nothing.
bool manifest_known_has(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES]);
// After COMMIT.
void manifest_known_add(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES]);

// Accounts that were short of room a moment ago: their reports are looked at one by one
// (storage/reports/report_judge.h). Some of them: one that was forgotten is found out anew.
enum { MANIFEST_KNOWN_FULL_MS = 5000, MANIFEST_KNOWN_FULL_ACCOUNTS = 256 };
bool manifest_known_is_full(struct manifest_known *known, struct str account_id);
void manifest_known_set_full(struct manifest_known *known, struct str account_id);

#endif
