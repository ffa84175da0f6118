#include "server/intake/share.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { BUCKETS = 1024 };

// An account (runtime empty) or a runtime that holds something.
struct holder {
    struct holder *next;
    uint64_t hash, bytes;
    size_t account_len, runtime_len;
    char text[]; // the account's id, then the runtime's name
};

struct share {
    struct share_options options;
    struct holder *buckets[BUCKETS];
};

struct share *share_create(const struct share_options *options)
{
    struct share *share = mem_zalloc(sizeof *share);
    share->options = *options;
    return share;
}

void share_destroy(struct share *share)
{
    if (!share) return;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct holder *holder = share->buckets[i], *next; holder; holder = next) {
            next = holder->next;
            mem_free(holder);
        }
    }
    mem_free(share);
}

// Names of runtimes are chosen by their owners, but whoever makes many that collide slows down himself: each
// has to hold something at the same time, and there is a limit to that.
static uint64_t hash_of(struct str account_id, struct str runtime)
{
    return hash_end(hash_part(hash_part(HASH_BEGIN, account_id), runtime));
}

// The link that points to it, or the one at the end of its bucket.
static struct holder *const *find(const struct share *share, struct str account_id, struct str runtime, uint64_t hash)
{
    struct holder *const *link = &share->buckets[hash % BUCKETS];
    for (; *link; link = &(*link)->next) {
        const struct holder *holder = *link;
        if (holder->hash == hash && str_eq(str_of(holder->text, holder->account_len), account_id) &&
            str_eq(str_of(holder->text + holder->account_len, holder->runtime_len), runtime))
            break;
    }
    return link;
}

static void take(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    uint64_t hash = hash_of(account_id, runtime);
    struct holder *holder = *find(share, account_id, runtime, hash);
    if (!holder) {
        holder = mem_alloc(sizeof *holder + account_id.len + runtime.len);
        *holder = (struct holder){.next = share->buckets[hash % BUCKETS],
                                  .hash = hash,
                                  .account_len = account_id.len,
                                  .runtime_len = runtime.len};
        if (account_id.len) memcpy(holder->text, account_id.at, account_id.len);
        if (runtime.len) memcpy(holder->text + account_id.len, runtime.at, runtime.len);
        share->buckets[hash % BUCKETS] = holder;
    }
    holder->bytes += bytes;
}

static void give_back(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    uint64_t hash = hash_of(account_id, runtime);
    struct holder **link = (struct holder **)(uintptr_t)find(share, account_id, runtime, hash), *holder = *link;
    assert(holder && holder->bytes >= bytes);
    holder->bytes -= bytes;
    if (holder->bytes) return;
    *link = holder->next;
    mem_free(holder);
}

void share_take(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    take(share, account_id, STR_EMPTY, bytes);
    take(share, account_id, runtime, bytes);
}

void share_give_back(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    give_back(share, account_id, STR_EMPTY, bytes);
    give_back(share, account_id, runtime, bytes);
}

static uint64_t held(const struct share *share, struct str account_id, struct str runtime)
{
    const struct holder *holder = *find(share, account_id, runtime, hash_of(account_id, runtime));
    return holder ? holder->bytes : 0;
}

enum share_scope share_over(const struct share *share, struct str account_id, struct str runtime)
{
    const struct share_options *options = &share->options;
    if (options->runtime_bytes_max && held(share, account_id, runtime) >= options->runtime_bytes_max)
        return SHARE_RUNTIME;
    if (options->account_bytes_max && held(share, account_id, STR_EMPTY) >= options->account_bytes_max)
        return SHARE_ACCOUNT;
    return SHARE_FREE;
}
