#include "storage/manifests/manifest_known.h"

#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"

enum { WAYS = 4, SETS = MANIFEST_KNOWN_ENTRIES / WAYS };

struct known_entry {
    uint64_t at_ms, server;
    uint8_t sha256[ID_SHA256_BYTES];
    char account_id[ID_ACCOUNT_BYTES]; // empty: nothing
};

struct full_account {
    uint64_t until_ms;
    char account_id[ID_ACCOUNT_BYTES];
};

struct manifest_known {
    uv_mutex_t mutex; // transactions are made ready on libuv's thread pool
    struct full_account full[MANIFEST_KNOWN_FULL_ACCOUNTS];
    struct known_entry sets[SETS][WAYS]; // of each, what was asked for or written last comes first
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

// Where it may be: a digest is as good as random.
static struct known_entry *set_of(struct manifest_known *known, const uint8_t *sha256)
{
    uint32_t first;
    memcpy(&first, sha256, sizeof first);
    return known->sets[first % SETS];
}

// WAYS: it is not there.
static size_t find(const struct known_entry *set, struct str account_id, const uint8_t *sha256)
{
    size_t way = 0;
    while (way < WAYS &&
           (memcmp(set[way].sha256, sha256, ID_SHA256_BYTES) != 0 || !str_eq(str_c(set[way].account_id), account_id)))
        way++;
    return way;
}

static void put_first(struct known_entry *set, size_t way, const struct known_entry *entry)
{
    memmove(set + 1, set, way * sizeof *set);
    set[0] = *entry;
}

// What is desired is asked for again and again: what changes all the time, and is never asked for,
// must not drive it out.
bool manifest_known_has(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES])
{
    if (!known || !account_id.len) return false;
    uv_mutex_lock(&known->mutex);
    struct known_entry *set = set_of(known, sha256);
    size_t way = find(set, account_id, sha256);
    bool has = way < WAYS && set[way].server == server && clock_mono_ms() - set[way].at_ms < MANIFEST_KNOWN_MS;
    if (has) {
        struct known_entry found = set[way];
        put_first(set, way, &found);
    }
    uv_mutex_unlock(&known->mutex);
    return has;
}

void manifest_known_add(struct manifest_known *known, uint64_t server, struct str account_id,
                        const uint8_t sha256[ID_SHA256_BYTES])
{
    if (!known || !account_id.len || account_id.len >= ID_ACCOUNT_BYTES) return;
    struct known_entry entry = {.at_ms = clock_mono_ms(), .server = server};
    memcpy(entry.sha256, sha256, ID_SHA256_BYTES);
    memcpy(entry.account_id, account_id.at, account_id.len);
    uv_mutex_lock(&known->mutex);
    struct known_entry *set = set_of(known, sha256);
    size_t way = find(set, account_id, sha256);
    put_first(set, way < WAYS ? way : WAYS - 1, &entry);
    uv_mutex_unlock(&known->mutex);
}

// ---- accounts without room -----------------------------------------------------------------------------------------

// The account's, or the one that ends first.
static struct full_account *find_full(struct manifest_known *known, struct str account_id)
{
    struct full_account *found = known->full;
    for (size_t i = 0; i < MANIFEST_KNOWN_FULL_ACCOUNTS; i++) {
        struct full_account *each = &known->full[i];
        if (str_eq(str_c(each->account_id), account_id)) return each;
        if (each->until_ms < found->until_ms) found = each;
    }
    return found;
}

bool manifest_known_is_full(struct manifest_known *known, struct str account_id)
{
    if (!known || !account_id.len) return false;
    uv_mutex_lock(&known->mutex);
    const struct full_account *found = find_full(known, account_id);
    bool is_full = str_eq(str_c(found->account_id), account_id) && found->until_ms > clock_mono_ms();
    uv_mutex_unlock(&known->mutex);
    return is_full;
}

void manifest_known_set_full(struct manifest_known *known, struct str account_id)
{
    if (!known || !account_id.len || account_id.len >= ID_ACCOUNT_BYTES) return;
    struct full_account full = {.until_ms = clock_mono_ms() + MANIFEST_KNOWN_FULL_MS};
    memcpy(full.account_id, account_id.at, account_id.len);
    uv_mutex_lock(&known->mutex);
    *find_full(known, account_id) = full;
    uv_mutex_unlock(&known->mutex);
}
