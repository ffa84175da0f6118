// json_canonical: is this text already what json_canonical() would make of it? Then nobody has to
// take it apart and put it together again; Go's encoder, which most reporters use, writes most
// manifests so. Pure; any thread.
#ifndef CULVERT_BASE_JSON_JSON_CANONICAL_H
#define CULVERT_BASE_JSON_JSON_CANONICAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

// A member of the outermost object that is looked for: the text of its value, empty when there is
// none.
struct json_canonical_part {
    struct str key, value;
};

// What else is found out on the way.
struct json_canonical_look {
    const struct str *words; // none of them may be a key or the whole of a string
    size_t word_count;
    struct json_canonical_part *parts; // worth something when the answer is true
    size_t part_count;
};

// True: an object, valid, compact, its keys in order and none twice, within the limits; json_decode
// takes it and json_canonical gives it back byte by byte. False: not so, or not worth finding out
// (fractions, long integers, \u). look may be NULL.
bool json_canonical_check(struct str text, size_t depth_max, size_t tokens_max, const struct json_canonical_look *look);

// Where the object or array at `at` ends, or NULL: it is not canonical. tokens_left is counted down
// for what was passed.
const char *json_canonical_skip(const char *at, const char *end, size_t depth_max, size_t *tokens_left);

#endif
