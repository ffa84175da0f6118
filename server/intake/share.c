#include "server/intake/share.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/table.h"

// An account (runtime empty) or a runtime that holds something.
struct holder {
    struct table_node node;
    uint64_t bytes;
    size_t account_len, runtime_len;
    char text[]; // the account's id, then the runtime's name
};

struct share {
    struct share_options options;
    struct table holders;
};

struct share *share_create(const struct share_options *options)
{
    struct share *share = mem_zalloc(sizeof *share);
    share->options = *options;
    table_init(&share->holders);
    return share;
}

void share_destroy(struct share *share)
{
    if (!share) return;
    for (struct table_node *node; (node = table_next(&share->holders, NULL));) {
        table_remove(&share->holders, node);
        mem_free(TABLE_OWNER(node, struct holder, node));
    }
    table_finish(&share->holders);
    mem_free(share);
}

static bool is_holder(const struct table_node *node, const void *key)
{
    const struct holder *holder = TABLE_OWNER(node, struct holder, node);
    struct runtime_key held = {str_of(holder->text, holder->account_len),
                               str_of(holder->text + holder->account_len, holder->runtime_len)};
    return runtime_key_eq(&held, key);
}

static struct holder *find(const struct share *share, const struct runtime_key *key)
{
    uint64_t hash = runtime_key_hash(share->holders.seed, key);
    struct table_node *node = table_find(&share->holders, hash, is_holder, key);
    return node ? TABLE_OWNER(node, struct holder, node) : NULL;
}

// The account of the runtime, which holds what all of its runtimes do.
static struct runtime_key account_of(const struct runtime_key *key)
{
    return (struct runtime_key){.account_id = key->account_id};
}

static void take(struct share *share, const struct runtime_key *key, size_t bytes)
{
    struct holder *holder = find(share, key);
    if (!holder) {
        struct str account_id = key->account_id, runtime = key->runtime;
        holder = mem_alloc(sizeof *holder + account_id.len + runtime.len);
        *holder = (struct holder){.account_len = account_id.len, .runtime_len = runtime.len};
        if (account_id.len) memcpy(holder->text, account_id.at, account_id.len);
        if (runtime.len) memcpy(holder->text + account_id.len, runtime.at, runtime.len);
        table_add(&share->holders, &holder->node, runtime_key_hash(share->holders.seed, key));
    }
    holder->bytes += bytes;
}

static void give_back(struct share *share, const struct runtime_key *key, size_t bytes)
{
    struct holder *holder = find(share, key);
    assert(holder && holder->bytes >= bytes);
    holder->bytes -= bytes;
    if (holder->bytes) return;
    table_remove(&share->holders, &holder->node);
    mem_free(holder);
}

void share_take(struct share *share, const struct runtime_key *key, size_t bytes)
{
    struct runtime_key account = account_of(key);
    take(share, &account, bytes);
    take(share, key, bytes);
}

void share_give_back(struct share *share, const struct runtime_key *key, size_t bytes)
{
    struct runtime_key account = account_of(key);
    give_back(share, &account, bytes);
    give_back(share, key, bytes);
}

static uint64_t held(const struct share *share, const struct runtime_key *key)
{
    const struct holder *holder = find(share, key);
    return holder ? holder->bytes : 0;
}

enum share_scope share_over(const struct share *share, const struct runtime_key *key)
{
    const struct share_options *options = &share->options;
    struct runtime_key account = account_of(key);
    if (options->runtime_bytes_max && held(share, key) >= options->runtime_bytes_max) return SHARE_RUNTIME;
    if (options->account_bytes_max && held(share, &account) >= options->account_bytes_max) return SHARE_ACCOUNT;
    return SHARE_FREE;
}
