#include "cli/reference.h"

#include <string.h>

#include "base/mem.h"
#include "cli/query.h"
#include "cli/row.h"

enum { NAMED_MAX = 5 };

static bool is_name(struct str text, const json_t *row, const char *path)
{
    if (!text.len) return true;
    const json_t *value = path ? row_at(row, path) : NULL;
    if (!json_is_integer(value)) return str_eq(text, str_c(json_string_value(value)));
    char number[32];
    int len = snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    return str_eq(text, str_of(number, (size_t)len));
}

bool reference_fits(const struct reference *reference, const json_t *row)
{
    const struct noun *noun = reference->noun;
    return is_name(reference->name, row, noun->name_path) && is_name(reference->namespace, row, noun->namespace_path) &&
           is_name(reference->runtime, row, noun->runtime_path);
}

enum error_code reference_parse(const struct noun *noun, const char *text, struct reference *out, struct error *err)
{
    struct str parts[3], rest = str_c(text);
    size_t count = 0, most = 1u + (noun->runtime_path ? 1u : 0u) + (noun->namespace_path ? 1u : 0u);
    // A name may have slashes of its own (an image) where nothing stands before it.
    bool has_more = most > 1;
    while (has_more && count < most - 1)
        has_more = str_cut(&rest, '/', &parts[count++]);
    if (has_more || most == 1) parts[count++] = rest;
    *out = (struct reference){.noun = noun, .name = parts[count - 1]};
    if (noun->namespace_path && count > 1) out->namespace = parts[count - 2];
    if (noun->runtime_path && count == most && count > 1) out->runtime = parts[0];
    bool is_whole = out->name.len && (count < 2 || parts[0].len) && (count < 3 || parts[1].len);
    bool has_rest = noun->find != NOUN_BY_NAME || most > 1 ? str_has_byte(out->name, '/') : false;
    if (is_whole && !has_rest) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "invalid name \"%.200s\" of %s: must be %s%sNAME", text, noun->name,
                     noun->runtime_path ? "[RUNTIME/]" : "", noun->namespace_path ? "[NAMESPACE/]" : "");
}

static enum error_code add(const struct noun *noun, const char *text, struct reference *out, size_t max, size_t *count,
                           struct error *err)
{
    if (*count == max) return error_set(err, ERROR_INVALID, "more than %zu names", max);
    return reference_parse(noun, text, &out[(*count)++], err);
}

enum error_code reference_words(const char *const *words, size_t count, const struct noun **out_noun,
                                struct reference *out, size_t max, size_t *out_count, struct error *err)
{
    *out_count = 0;
    *out_noun = NULL;
    if (!count) return error_set(err, ERROR_INVALID, "a resource type is needed, for example: applications");
    const char *slash = strchr(words[0], '/');
    if (!slash) {
        enum error_code code = noun_need(words[0], out_noun, err);
        for (size_t i = 1; code == ERROR_NONE && i < count; i++)
            code = add(*out_noun, words[i], out, max, out_count, err);
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        slash = strchr(words[i], '/');
        if (!slash) return error_set(err, ERROR_INVALID, "\"%.100s\": must be TYPE/NAME as those before it", words[i]);
        char *type = mem_strndup(words[i], (size_t)(slash - words[i]));
        const struct noun *noun;
        enum error_code code = noun_need(type, &noun, err);
        mem_free(type);
        if (code == ERROR_NONE && *out_noun && noun != *out_noun)
            code = error_set(err, ERROR_INVALID, "\"%.100s\": all must be of one type, as %s", words[i],
                             (*out_noun)->name);
        if (code == ERROR_NONE) code = add(noun, slash + 1, out, max, out_count, err);
        if (code != ERROR_NONE) return code;
        *out_noun = noun;
    }
    return ERROR_NONE;
}

static enum error_code missing(const struct reference *reference, struct error *err)
{
    return error_set(err, ERROR_NOT_FOUND, "%s \"%.*s%s%.*s%s%.*s\" does not exist, or you may not see it",
                     reference->noun->name, STR_ARG(reference->runtime), reference->runtime.len ? "/" : "",
                     STR_ARG(reference->namespace), reference->namespace.len ? "/" : "", STR_ARG(reference->name));
}

static enum error_code several(const struct reference *reference, const json_t *rows, struct error *err)
{
    struct strbuf names;
    strbuf_init(&names, 300);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (i == NAMED_MAX) break;
        if (i) strbuf_add_c(&names, ", ");
        row_reference(reference->noun, row, &names);
    }
    error_set(err, ERROR_INVALID, "several are called \"%.*s\": %s%s", STR_ARG(reference->name), names.at,
              json_array_size(rows) > NAMED_MAX ? ", ..." : "");
    strbuf_finish(&names);
    return ERROR_INVALID;
}

static void set_filters(const struct reference *reference, struct query *query)
{
    char *name = mem_strndup(reference->name.at, reference->name.len);
    query_name(query, name);
    mem_free(name);
    if (reference->runtime.len && noun_filter_find(reference->noun, "runtime")) {
        char *runtime = mem_strndup(reference->runtime.at, reference->runtime.len);
        if (query_filter(query, "runtime", runtime, NULL) != ERROR_NONE)
            query->is_over = true; // no valid UTF-8: no object has it
        mem_free(runtime);
    }
}

static enum error_code read_rows(struct query *query, const struct reference *reference, struct client *client,
                                 json_t *found, struct error *err)
{
    enum error_code code = ERROR_NONE;
    while (code == ERROR_NONE && !query->is_over && json_array_size(found) <= NAMED_MAX) {
        json_t *rows;
        code = query_next(query, client, &rows, err);
        if (code != ERROR_NONE) break;
        size_t i;
        json_t *row;
        json_array_foreach(rows, i, row)
        {
            if (reference_fits(reference, row)) json_array_append(found, row);
        }
        json_decref(rows);
    }
    return code;
}

enum error_code reference_read(const struct reference *reference, struct client *client, const char *selection,
                               json_t **out, struct error *err)
{
    struct query query;
    query_init(&query, reference->noun, selection);
    json_t *found = json_array();
    enum error_code code;
    if (reference->noun->find == NOUN_BY_ID) {
        char *id = mem_strndup(reference->name.at, reference->name.len);
        json_t *row = NULL;
        code = query_by_id(&query, client, id, &row, err);
        if (row) json_array_append_new(found, row);
        mem_free(id);
    } else {
        set_filters(reference, &query);
        code = read_rows(&query, reference, client, found, err);
    }
    size_t count = json_array_size(found);
    if (code == ERROR_NONE && count > 1) code = several(reference, found, err);
    if (code == ERROR_NONE && !count) code = missing(reference, err);
    if (code == ERROR_NONE) *out = json_incref(json_array_get(found, 0));
    json_decref(found);
    query_finish(&query);
    return code;
}
