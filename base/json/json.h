// json: bounded decoding for bytes from outside (jansson turns 1 MiB of "{}" into 77 MiB, so bytes, depth and
// tokens are counted before it runs), and short accessors. Any thread.
#ifndef CULVERT_BASE_JSON_JSON_H
#define CULVERT_BASE_JSON_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json/json_limits.h"
#include "base/str.h"

// Object or array at the top; duplicates refused. The caller owns *out (json_decref). Errors name line and column.
MUST_CHECK enum error_code json_decode(struct str text, const struct json_limits *limits, json_t **out,
                                       struct error *err);

// Walks members; a missing or differently typed one gives the empty view, def, or NULL. Views live with the value.
struct str json_get_str(const json_t *object, const char *key);
int64_t json_get_int(const json_t *object, const char *key, int64_t def);
bool json_get_bool(const json_t *object, const char *key, bool def);
json_t *json_get_object(const json_t *object, const char *key); // borrowed
json_t *json_get_array(const json_t *object, const char *key);  // borrowed
// json_path(app, "status", "sync", "status", NULL): borrowed value or NULL.
json_t *json_path(const json_t *object, const char *first, ...) __attribute__((sentinel));
struct str json_str(const json_t *value); // the text of a string value, or empty
json_t *json_new_str(struct str s);       // new reference; invalid UTF-8 is replaced by U+FFFD
// Compact text with sorted keys: the canonical form that content hashes are taken of. The caller owns it.
char *json_canonical(const json_t *value, size_t *out_len);

#endif
