#include "modules/identity/rule_input.h"

#include "base/json/json.h"
#include "base/mem.h"

enum { TEAMS_MAX = 100, TAGS_MAX = 100, TEXT_BYTES_MAX = 200 };

static enum error_code check_texts(const json_t *list, const char *name, size_t least, size_t most, struct error *err)
{
    size_t i, count = json_array_size(list);
    const json_t *text;
    if (count < least || count > most)
        return error_set(err, ERROR_INVALID, "%s: %zu, must be %zu to %zu", name, count, least, most);
    json_array_foreach(list, i, text)
    {
        struct str value = json_str(text);
        if (!value.len || value.len > TEXT_BYTES_MAX || str_has_byte(value, '\0'))
            return error_set(err, ERROR_INVALID, "%s[%zu]: %zu bytes, must be 1 to %d without a NUL", name, i,
                             value.len, TEXT_BYTES_MAX);
    }
    return ERROR_NONE;
}

static struct str text_of(struct arena *arena, const json_t *list)
{
    size_t len;
    if (!json_is_array(list)) return STR("[]");
    char *text = json_canonical(list, &len);
    struct str copy = arena_str(arena, str_of(text, len));
    mem_free(text);
    return copy;
}

enum error_code rule_input_take(const json_t *input, struct arena *arena, struct rule_input *out, struct error *err)
{
    enum error_code code = check_texts(json_get_array(input, "teams"), "teams", 1, TEAMS_MAX, err);
    if (code == ERROR_NONE) code = check_texts(json_get_array(input, "tags"), "tags", 0, TAGS_MAX, err);
    if (code == ERROR_NONE) code = access_rule_parse(input, arena, &out->rule, err);
    out->entity = json_get_str(input, "entityType");
    out->effect = out->rule.is_deny ? STR("DENY") : STR("ALLOW");
    out->teams = text_of(arena, json_get_array(input, "teams"));
    out->tags = text_of(arena, json_get_array(input, "tags"));
    out->actions = text_of(arena, json_get_array(input, "actions"));
    out->attributes = text_of(arena, json_get_array(input, "attributes"));
    return code;
}
