#include "storage/manifest_known.h"

#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"

struct known_entry {
    uint64_t at_ms, server;
    uint8_t sha256[ID_SHA256_BYTES];
    char account_id[ID_ACCOUNT_BYTES]; // empty: nothing
};

struct manifest_known {
    uv_mutex_t mutex; // transactions are made ready on libuv's thread pool
    struct known_entry entries[MANIFEST_KNOWN_ENTRIES];
};

struct manifest_known *manifest_known_create(void)
{
    struct manifest_known *known = mem_zalloc(sizeof *known);
    uv_mutex_init(&known->mutex);
    return known;
}

void manifest_known_destroy(struct manifest_known *known)
{
    if (!known) return;
    uv_mutex_destroy(&known->mutex);
    mem_free(known);
}

// The one place where it may be: a digest is as good as random.
static struct known_entry *place_of(struct manifest_known *known, const uint8_t *sha256)
{
    uint32_t first;
    memcpy(&first, sha256, sizeof first);
    return &known->entries[first % MANIFEST_KNOWN_ENTRIES];
}

bool manifest_known_has(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES])
{
    if (!known) return false;
    uv_mutex_lock(&known->mutex);
    const struct known_entry *entry = place_of(known, sha256);
    bool has = entry->account_id[0] && entry->server == server && clock_mono_ms() - entry->at_ms < MANIFEST_KNOWN_MS &&
               memcmp(entry->sha256, sha256, ID_SHA256_BYTES) == 0 && str_eq(str_c(entry->account_id), account_id);
    uv_mutex_unlock(&known->mutex);
    return has;
}

void manifest_known_add(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES])
{
    if (!known || !account_id.len || account_id.len >= ID_ACCOUNT_BYTES) return;
    uv_mutex_lock(&known->mutex);
    struct known_entry *entry = place_of(known, sha256);
    *entry = (struct known_entry){.at_ms = clock_mono_ms(), .server = server};
    memcpy(entry->sha256, sha256, ID_SHA256_BYTES);
    memcpy(entry->account_id, account_id.at, account_id.len);
    uv_mutex_unlock(&known->mutex);
}
