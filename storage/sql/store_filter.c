#include "storage/sql/store_filter.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "storage/sql/store_call.h"

enum error_code store_filter_open(struct store_filter *filter, struct str text, struct error *err)
{
    *filter = (struct store_filter){0};
    if (text.len && json_decode(text, NULL, &filter->object, err) != ERROR_NONE) return err->code;
    filter->arena = arena_create(0);
    return ERROR_NONE;
}

void store_filter_close(struct store_filter *filter)
{
    arena_destroy(filter->arena);
    json_decref(filter->object);
    *filter = (struct store_filter){0};
}

struct pg_param store_filter_text(const struct store_filter *filter, const char *name)
{
    return pg_text(json_get_str(filter->object, name));
}

struct pg_param store_filter_bool(const struct store_filter *filter, const char *name)
{
    return pg_bool(json_get_bool(filter->object, name, false));
}

static struct pg_param array_text(struct store_filter *filter, const json_t *array)
{
    char *text = json_dumps(array, JSON_COMPACT);
    struct str copy = arena_str(filter->arena, text ? str_c(text) : STR("[]"));
    if (text) free(text);
    return pg_text(copy);
}

static bool has_word(const json_t *array, struct str word)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)array, i, each)
    {
        if (str_eq(json_str(each), word)) return true;
    }
    return json_array_size(array) == 0;
}

struct pg_param store_filter_list(struct store_filter *filter, const char *many, const char *one)
{
    json_t *list = json_array();
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(filter->object, many), i, each)
    {
        if (json_is_string(each) && json_string_length(each)) json_array_append(list, each);
    }
    struct str single = one ? json_get_str(filter->object, one) : STR_EMPTY;
    if (single.len) {
        if (!has_word(list, single)) filter->matches_nothing = true;
        json_array_clear(list);
        json_array_append_new(list, json_new_str(single));
    }
    struct pg_param param = array_text(filter, list);
    json_decref(list);
    return param;
}

enum error_code store_filter_time(const struct store_filter *filter, const char *name, struct pg_param *out,
                                  struct error *err)
{
    struct str text = json_get_str(filter->object, name);
    int64_t ignored;
    if (text.len && clock_parse_rfc3339(text, &ignored, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "filters.%s: must be an RFC 3339 time", name);
    *out = pg_text(text);
    return ERROR_NONE;
}

void store_filter_without(struct store_filter *filter, const char *const *names)
{
    for (; *names; names++) {
        const json_t *value = json_object_get(filter->object, *names);
        if (json_is_true(value) || json_string_length(value) > 0 || json_array_size(value) > 0 || json_is_number(value))
            filter->matches_nothing = true;
    }
}

void store_filter_must_have(struct store_filter *filter, const char *many, struct str word)
{
    if (!has_word(json_get_array(filter->object, many), word)) filter->matches_nothing = true;
}

struct pg_param store_filter_limit(const struct store_filter *filter, const char *limit)
{
    return pg_text(filter->matches_nothing ? STR("0") : str_c(limit));
}
