#include "server/chores/runtime_names.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"

enum { BUCKETS_MIN = 64 };

struct runtime_name {
    struct runtime_name *next;
    size_t times;
    size_t account_len, runtime_len;
    char text[]; // account, runtime
};

void runtime_names_init(struct runtime_names *names)
{
    *names = (struct runtime_names){.bucket_count = BUCKETS_MIN, .seed = id_random_u64()};
    names->buckets = mem_array(names->bucket_count, sizeof *names->buckets);
}

void runtime_names_finish(struct runtime_names *names)
{
    for (size_t i = 0; i < names->bucket_count; i++) {
        for (struct runtime_name *name = names->buckets[i], *next; name; name = next) {
            next = name->next;
            mem_free(name);
        }
    }
    mem_free(names->buckets);
}

static size_t bucket_of(const struct runtime_names *names, struct str account_id, struct str runtime)
{
    return (size_t)hash_end(hash_part(hash_part(names->seed, account_id), runtime)) & (names->bucket_count - 1);
}

static struct str account_of(const struct runtime_name *name)
{
    return str_of(name->text, name->account_len);
}

static struct str runtime_of(const struct runtime_name *name)
{
    return str_of(name->text + name->account_len, name->runtime_len);
}

static struct runtime_name **look_up(const struct runtime_names *names, struct str account_id, struct str runtime)
{
    struct runtime_name **at = &names->buckets[bucket_of(names, account_id, runtime)];
    while (*at && !(str_eq(account_of(*at), account_id) && str_eq(runtime_of(*at), runtime)))
        at = &(*at)->next;
    return at;
}

static void grow(struct runtime_names *names)
{
    struct runtime_name **old = names->buckets;
    size_t old_count = names->bucket_count;
    names->bucket_count *= 2;
    names->buckets = mem_array(names->bucket_count, sizeof *names->buckets);
    for (size_t i = 0; i < old_count; i++) {
        for (struct runtime_name *name = old[i], *next; name; name = next) {
            next = name->next;
            struct runtime_name **bucket = &names->buckets[bucket_of(names, account_of(name), runtime_of(name))];
            name->next = *bucket;
            *bucket = name;
        }
    }
    mem_free(old);
}

void runtime_names_add(struct runtime_names *names, struct str account_id, struct str runtime)
{
    struct runtime_name **at = look_up(names, account_id, runtime);
    if (*at) {
        (*at)->times++;
        return;
    }
    struct runtime_name *name = mem_zalloc(sizeof *name + account_id.len + runtime.len);
    name->times = 1;
    name->account_len = account_id.len;
    name->runtime_len = runtime.len;
    if (account_id.len) memcpy(name->text, account_id.at, account_id.len);
    if (runtime.len) memcpy(name->text + account_id.len, runtime.at, runtime.len);
    *at = name;
    if (++names->count > names->bucket_count) grow(names);
}

void runtime_names_remove(struct runtime_names *names, struct str account_id, struct str runtime)
{
    struct runtime_name **at = look_up(names, account_id, runtime), *name = *at;
    assert(name);
    if (--name->times > 0) return;
    *at = name->next;
    names->count--;
    mem_free(name);
}

bool runtime_names_have(const struct runtime_names *names, struct str account_id, struct str runtime)
{
    return *look_up(names, account_id, runtime) != NULL;
}
