#include "api/graphql/document_cache.h"

#include "base/hash.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/strbuf.h"
#include "base/table.h"

struct kept_document {
    struct table_node node;
    struct list used;
    struct str key;  // account/hash
    struct str text; // both behind the struct
};

struct document_cache {
    struct table documents;
    struct list used; // the least recently used first
    size_t documents_max;
    struct metric *hits, *misses, *stored, *evictions;
};

struct document_cache *document_cache_create(size_t documents_max)
{
    struct document_cache *cache = mem_zalloc(sizeof *cache);
    table_init(&cache->documents);
    list_init(&cache->used);
    cache->documents_max = documents_max;
    struct metric_family *looks = metrics_counter("culvert_graphql_persisted_documents_total",
                                                  "Requests with the hash of a GraphQL document.", "result", NULL);
    cache->hits = metric_with(looks, "hit");
    cache->misses = metric_with(looks, "miss");
    cache->stored = metric_with(looks, "stored");
    cache->evictions = metric_with(looks, "evicted");
    return cache;
}

static void evict(struct document_cache *cache, struct kept_document *document)
{
    table_remove(&cache->documents, &document->node);
    list_remove(&document->used);
    mem_free(document);
}

void document_cache_destroy(struct document_cache *cache)
{
    if (!cache) return;
    while (!list_is_empty(&cache->used))
        evict(cache, LIST_OWNER(cache->used.next, struct kept_document, used));
    table_finish(&cache->documents);
    mem_free(cache);
}

static bool is_document(const struct table_node *node, const void *key)
{
    return str_eq(TABLE_OWNER(node, const struct kept_document, node)->key, *(const struct str *)key);
}

static struct kept_document *find(struct document_cache *cache, struct str key)
{
    uint64_t hash = hash_end(hash_part(cache->documents.seed, key));
    struct table_node *node = table_find(&cache->documents, hash, is_document, &key);
    return node ? TABLE_OWNER(node, struct kept_document, node) : NULL;
}

struct str document_cache_find(struct document_cache *cache, struct str account_id, struct str hash)
{
    struct strbuf key;
    strbuf_init(&key, 512);
    strbuf_addf(&key, "%.*s/%.*s", STR_ARG(account_id), STR_ARG(hash));
    struct kept_document *document = find(cache, strbuf_str(&key));
    strbuf_finish(&key);
    metric_add(document ? cache->hits : cache->misses, 1);
    if (!document) return STR_EMPTY;
    list_remove(&document->used);
    list_add_last(&cache->used, &document->used);
    return document->text;
}

void document_cache_add(struct document_cache *cache, struct str account_id, struct str hash, struct str text)
{
    if (!cache->documents_max || text.len > DOCUMENT_CACHE_BYTES_MAX) return;
    size_t key_len = account_id.len + 1 + hash.len;
    struct kept_document *document = mem_zalloc(sizeof *document + key_len + text.len);
    list_init(&document->used);
    char *at = (char *)(document + 1);
    memcpy(at, account_id.at, account_id.len);
    at[account_id.len] = '/';
    memcpy(at + account_id.len + 1, hash.at, hash.len);
    memcpy(at + key_len, text.at, text.len);
    document->key = str_of(at, key_len);
    document->text = str_of(at + key_len, text.len);
    if (find(cache, document->key)) {
        mem_free(document);
        return;
    }
    if (cache->documents.count >= cache->documents_max) {
        evict(cache, LIST_OWNER(cache->used.next, struct kept_document, used));
        metric_add(cache->evictions, 1);
    }
    table_add(&cache->documents, &document->node, hash_end(hash_part(cache->documents.seed, document->key)));
    list_add_last(&cache->used, &document->used);
    metric_add(cache->stored, 1);
}

// ---- the list -----------------------------------------------------------------------------------

static enum error_code check_list(const char *path, json_t *list, struct error *err)
{
    const char *hash;
    json_t *document;
    if (!json_is_object(list)) return error_set(err, ERROR_INVALID, "%s: must be a JSON object", path);
    json_object_foreach(list, hash, document)
    {
        char hex[ID_SHA256_HEX_BYTES];
        struct str text = json_str(document);
        id_sha256_hex(text.at ? text.at : "", text.len, hex);
        if (!text.len || !str_eq(str_c(hex), str_c(hash)))
            return error_set(err, ERROR_INVALID, "%s: \"%.80s\" is not the SHA-256 of its document", path, hash);
    }
    return ERROR_NONE;
}

enum error_code document_list_load(const char *path, json_t **out, struct error *err)
{
    json_error_t bad;
    json_t *list = json_load_file(path, JSON_REJECT_DUPLICATES, &bad);
    if (!list) return error_set(err, ERROR_INVALID, "%s: %s (line %d)", path, bad.text, bad.line);
    enum error_code code = check_list(path, list, err);
    if (code == ERROR_NONE)
        *out = list;
    else
        json_decref(list);
    return code;
}

struct str document_list_find(const json_t *list, struct str hash)
{
    return json_str(json_object_getn(list, hash.at, hash.len));
}
