#include "api/rest/stored_answer.h"

#include "base/json/json.h"
#include "base/parse.h"

enum { TOKENS_MAX = 4 * 1000 * 1000, DEPTH_MAX = 64 };

static const json_t *member_at(const json_t *value, struct str path)
{
    struct str name;
    uint64_t index;
    if (str_eq(path, STR("@"))) return value;
    while (path.len) {
        str_cut(&path, '.', &name);
        value = json_is_array(value) && parse_u64(name, 0, 1000, &index, NULL) == ERROR_NONE
                    ? json_array_get(value, index)
                    : json_object_getn(value, name.at, name.len);
    }
    return value;
}

static json_t *items_of(const json_t *slice, const char **next)
{
    json_t *items = json_array(), *edge;
    size_t i;
    json_array_foreach(json_get_array(slice, "edges"), i, edge) json_array_append(items, json_object_get(edge, "node"));
    const json_t *info = json_get_object(slice, "pageInfo");
    *next = json_get_bool(info, "hasNextPage", false) ? json_string_value(json_object_get(info, "endCursor")) : NULL;
    return json_pack("{s:o, s:s?}", "items", items, "next", *next);
}

enum error_code stored_answer_read(const struct stored_route *route, struct str body, size_t bytes_max,
                                   struct stored_answer *out, struct error *err)
{
    const struct json_limits limits = {.bytes_max = bytes_max, .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX};
    *out = (struct stored_answer){0};
    if (json_decode(body, &limits, &out->document, err) != ERROR_NONE) return err->code;
    const json_t *value = member_at(json_object_get(out->document, "data"), route->answer);
    out->problem = json_array_get(json_object_get(out->document, "errors"), 0);
    if (json_is_array(json_object_get(value, "edges")))
        out->value = items_of(value, &out->next);
    else if (!json_is_null(value))
        out->value = json_incref((json_t *)value);
    return ERROR_NONE;
}

void stored_answer_finish(struct stored_answer *answer)
{
    json_decref(answer->value);
    json_decref(answer->document);
}
