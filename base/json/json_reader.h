// json_reader: the common case of JSON, several times as fast as jansson's own decoder, into the same values. What it
// is not sure of (a mistake, a limit, a number with a fraction, a rare escape) it leaves to the slower way, which then
// decides; so it never takes what that refuses. For json.c. Pure; any thread.
#ifndef CULVERT_BASE_JSON_JSON_READER_H
#define CULVERT_BASE_JSON_JSON_READER_H

#include <jansson.h>

#include "base/json/json_limits.h"

// An object or array (new reference), or NULL: ask jansson. Limits as in json.h, but none of them 0.
json_t *json_reader_read(struct str text, const struct json_limits *limits);

#endif
