// json_limits: what a JSON text from outside may at most be. A value.
#ifndef CULVERT_BASE_JSON_JSON_LIMITS_H
#define CULVERT_BASE_JSON_JSON_LIMITS_H

#include <stddef.h>

#include "base/str.h"

struct json_limits {
    size_t bytes_max;  // 0: 1 MiB
    size_t depth_max;  // 0: 64
    size_t tokens_max; // 0: 100,000 (values and keys)
    // Keys whose objects and arrays nobody will look at, wherever they stand: they are checked, and
    // null may be there.
    const struct str *skip;
    size_t skip_count;
};

#endif
