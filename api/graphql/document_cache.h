// document_cache: GraphQL documents by their SHA-256, which clients send in place of the text:
// automatic persisted queries (a client sends the text once, after it was told that the hash is not
// known). By account, so that none sees what another one uses. The least recently used one leaves.
// One an api, on its loop. A list of documents comes from a file: it is constant, any thread.
#ifndef CULVERT_API_GRAPHQL_DOCUMENT_CACHE_H
#define CULVERT_API_GRAPHQL_DOCUMENT_CACHE_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

struct document_cache;

enum { DOCUMENT_CACHE_BYTES_MAX = 64 * 1024 }; // of one document; larger ones are not kept

struct document_cache *document_cache_create(size_t documents_max); // 0: none is kept
void document_cache_destroy(struct document_cache *cache);          // NULL is fine
// A view that is valid until the next call; empty: not known. hash: 64 hex digits.
struct str document_cache_find(struct document_cache *cache, struct str account_id, struct str hash);
void document_cache_add(struct document_cache *cache, struct str account_id, struct str hash, struct str text);

// {"<sha256>": "<document>"}: ERROR_INVALID names the first that is wrong. NULL is the empty list.
// The caller owns it (json_decref).
MUST_CHECK enum error_code document_list_load(const char *path, json_t **out, struct error *err);
struct str document_list_find(const json_t *list, struct str hash);

#endif
