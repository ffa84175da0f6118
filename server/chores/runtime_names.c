#include "server/chores/runtime_names.h"

#include <assert.h>
#include <string.h>

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

static size_t bucket_of(const struct runtime_names *names, const struct runtime_key *key)
{
    return (size_t)runtime_key_hash(names->seed, key) & (names->bucket_count - 1);
}

static struct runtime_key key_of(const struct runtime_name *name)
{
    return (struct runtime_key){str_of(name->text, name->account_len),
                                str_of(name->text + name->account_len, name->runtime_len)};
}

static bool is_of(const struct runtime_name *name, const struct runtime_key *key)
{
    struct runtime_key own = key_of(name);
    return runtime_key_eq(&own, key);
}

static struct runtime_name **look_up(const struct runtime_names *names, const struct runtime_key *key)
{
    struct runtime_name **at = &names->buckets[bucket_of(names, key)];
    while (*at && !is_of(*at, key))
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
            struct runtime_key key = key_of(name);
            struct runtime_name **bucket = &names->buckets[bucket_of(names, &key)];
            name->next = *bucket;
            *bucket = name;
        }
    }
    mem_free(old);
}

void runtime_names_add(struct runtime_names *names, const struct runtime_key *key)
{
    struct runtime_name **at = look_up(names, key);
    if (*at) {
        (*at)->times++;
        return;
    }
    struct runtime_name *name = mem_zalloc(sizeof *name + key->account_id.len + key->runtime.len);
    name->times = 1;
    name->account_len = key->account_id.len;
    name->runtime_len = key->runtime.len;
    if (key->account_id.len) memcpy(name->text, key->account_id.at, key->account_id.len);
    if (key->runtime.len) memcpy(name->text + key->account_id.len, key->runtime.at, key->runtime.len);
    *at = name;
    if (++names->count > names->bucket_count) grow(names);
}

void runtime_names_remove(struct runtime_names *names, const struct runtime_key *key)
{
    struct runtime_name **at = look_up(names, key), *name = *at;
    assert(name);
    if (--name->times > 0) return;
    *at = name->next;
    names->count--;
    mem_free(name);
}

bool runtime_names_have(const struct runtime_names *names, const struct runtime_key *key)
{
    return *look_up(names, key) != NULL;
}
