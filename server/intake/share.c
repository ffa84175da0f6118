#include "server/intake/share.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
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

struct key {
    struct str account_id, runtime;
};

static uint64_t hash_of(const struct share *share, const struct key *key)
{
    return hash_end(hash_part(hash_part(share->holders.seed, key->account_id), key->runtime));
}

static bool is_holder(const struct table_node *node, const void *arg)
{
    const struct key *key = arg;
    const struct holder *holder = TABLE_OWNER(node, struct holder, node);
    return str_eq(str_of(holder->text, holder->account_len), key->account_id) &&
           str_eq(str_of(holder->text + holder->account_len, holder->runtime_len), key->runtime);
}

static struct holder *find(const struct share *share, struct str account_id, struct str runtime)
{
    struct key key = {account_id, runtime};
    struct table_node *node = table_find(&share->holders, hash_of(share, &key), is_holder, &key);
    return node ? TABLE_OWNER(node, struct holder, node) : NULL;
}

static void take(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    struct holder *holder = find(share, account_id, runtime);
    if (!holder) {
        holder = mem_alloc(sizeof *holder + account_id.len + runtime.len);
        *holder = (struct holder){.account_len = account_id.len, .runtime_len = runtime.len};
        if (account_id.len) memcpy(holder->text, account_id.at, account_id.len);
        if (runtime.len) memcpy(holder->text + account_id.len, runtime.at, runtime.len);
        table_add(&share->holders, &holder->node, hash_of(share, &(struct key){account_id, runtime}));
    }
    holder->bytes += bytes;
}

static void give_back(struct share *share, struct str account_id, struct str runtime, size_t bytes)
{
    struct holder *holder = find(share, account_id, runtime);
    assert(holder && holder->bytes >= bytes);
    holder->bytes -= bytes;
    if (holder->bytes) return;
    table_remove(&share->holders, &holder->node);
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
    const struct holder *holder = find(share, account_id, runtime);
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
