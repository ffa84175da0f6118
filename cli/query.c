#include "cli/query.h"

#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/row.h"

enum { DOCUMENT_BYTES_MAX = 32 * 1024 };

void query_init(struct query *query, const struct noun *noun, const char *selection)
{
    *query = (struct query){.noun = noun, .filters = json_object(), .arguments = json_object(), .selection = selection};
    for (const struct noun_filter *filter = noun->filters; filter && filter->option; filter++)
        if (filter->value) json_object_set_new(query->arguments, filter->name, json_string(filter->value));
}

void query_finish(struct query *query)
{
    json_decref(query->filters);
    json_decref(query->arguments);
    mem_free(query->cursor);
}

static enum error_code unknown_filter(const struct noun *noun, const char *option, struct error *err)
{
    struct strbuf names;
    strbuf_init(&names, 300);
    for (const struct noun_filter *filter = noun->filters; filter->option; filter++)
        if (*filter->option != '-') strbuf_addf(&names, "%s%s", names.len ? ", " : "", filter->option);
    error_set(err, ERROR_INVALID, "%s has no filter \"%.60s\"; it has %s",
              noun->others[0] ? noun->others[0] : noun->name, option, names.len ? names.at : "none");
    strbuf_finish(&names);
    return ERROR_INVALID;
}

static enum error_code scalar_of(const struct noun_filter *filter, struct str text, json_t **out, struct error *err)
{
    bool is_true;
    int64_t number;
    if (strncmp(filter->type, "Boolean", 7) == 0) {
        if (parse_bool(text, &is_true, err) != ERROR_NONE) return error_prefix(err, filter->option);
        *out = json_boolean(is_true);
    } else if (strncmp(filter->type, "Int", 3) == 0) {
        if (parse_i64(text, INT32_MIN, INT32_MAX, &number, err) != ERROR_NONE) return error_prefix(err, filter->option);
        *out = json_integer(number);
    } else {
        *out = json_stringn(text.at, text.len);
    }
    return *out ? ERROR_NONE : error_set(err, ERROR_INVALID, "%s: no valid UTF-8", filter->option);
}

static enum error_code add_values(json_t *values, const char *name, const char *value, struct error *err)
{
    json_t *list = json_object_get(values, name);
    if (!list) {
        list = json_array();
        json_object_set_new(values, name, list);
    }
    struct str rest = str_c(value), item;
    bool has_more = true;
    while (has_more) {
        has_more = str_cut(&rest, ',', &item);
        json_t *text = json_stringn(item.at ? item.at : "", item.len);
        if (!text) return error_set(err, ERROR_INVALID, "%s: no valid UTF-8", name);
        json_array_append_new(list, text);
    }
    return ERROR_NONE;
}

enum error_code query_filter(struct query *query, const char *option, const char *value, struct error *err)
{
    const struct noun_filter *filter = noun_filter_find(query->noun, option);
    if (!filter) return unknown_filter(query->noun, option, err);
    json_t *values = filter->is_argument ? query->arguments : query->filters, *scalar;
    if (filter->type[0] == '[') return add_values(values, filter->name, value, err);
    const char *former = json_string_value(json_object_get(values, filter->name));
    if (json_object_get(values, filter->name) && !(filter->value && former && strcmp(former, filter->value) == 0))
        return error_set(err, ERROR_INVALID, "%s: takes one value and is given twice", option);
    enum error_code code = scalar_of(filter, str_c(value), &scalar, err);
    if (code == ERROR_NONE) json_object_set_new(values, filter->name, scalar);
    return code;
}

void query_name(struct query *query, const char *name)
{
    const struct noun *noun = query->noun;
    if (noun->find != NOUN_BY_NAME) return;
    json_t *text = json_string(name);
    if (text && noun->find_type[0] == '[') text = json_pack("[o]", text);
    if (text) json_object_set_new(query->filters, noun->find_name, text);
}

struct document_argument {
    const char *name, *type;
};

// The variables are declared, then passed: both lists are of the same arguments.
static void write_arguments(const struct document_argument *arguments, bool is_declaration, struct strbuf *out)
{
    size_t count = 0;
    for (const struct document_argument *argument = arguments; argument->name; argument++) {
        strbuf_add_c(out, count++ ? ", " : "(");
        if (is_declaration) {
            strbuf_addf(out, "$%s: %s", argument->name, argument->type);
        } else {
            strbuf_addf(out, "%s: $%s", argument->name, argument->name);
        }
    }
    if (count) strbuf_add_byte(out, ')');
}

void query_write_document(const struct query *query, struct strbuf *out)
{
    enum { ARGUMENTS_MAX = 16 };
    const struct noun *noun = query->noun;
    struct document_argument arguments[ARGUMENTS_MAX] = {{0}};
    size_t count = 0;
    if (noun->window) arguments[count++] = (struct document_argument){"first", "Int"};
    if (noun->window) arguments[count++] = (struct document_argument){"before", "Int"};
    if (noun->is_paged) arguments[count++] = (struct document_argument){"pagination", "SlicePaginationArgs"};
    if (noun->filter_type && json_object_size(query->filters))
        arguments[count++] = (struct document_argument){"filters", noun->filter_type};
    for (const struct noun_filter *filter = noun->filters; filter->option && count < ARGUMENTS_MAX - 1; filter++) {
        if (filter->is_argument && json_object_get(query->arguments, filter->name))
            arguments[count++] = (struct document_argument){filter->name, filter->type};
    }
    strbuf_add_c(out, "query");
    write_arguments(arguments, true, out);
    strbuf_addf(out, " { %s", noun->list);
    write_arguments(arguments, false, out);
    strbuf_addf(out, noun->is_paged ? " { edges { node {%s } } pageInfo { endCursor hasNextPage } } }" : " {%s } }",
                query->selection);
}

static size_t page_size(const struct query *query)
{
    size_t size = query->chunk ? query->chunk : QUERY_CHUNK_DEFAULT, most = query->noun->window ? 500 : QUERY_CHUNK_MAX;
    if (size > most) size = most;
    size_t left = query->limit ? query->limit - query->count : size;
    return left < size ? left : size;
}

static json_t *variables_of(const struct query *query, size_t first)
{
    const struct noun *noun = query->noun;
    json_t *variables = json_copy(query->arguments), *page = noun->is_paged ? json_object() : variables;
    if (noun->is_paged || noun->window) json_object_set_new(page, "first", json_integer((json_int_t)first));
    if (query->cursor) json_object_set_new(page, "after", json_string(query->cursor));
    if (query->before) json_object_set_new(page, "before", json_integer(query->before));
    if (noun->is_paged) json_object_set_new(variables, "pagination", page);
    if (noun->filter_type && json_object_size(query->filters)) json_object_set(variables, "filters", query->filters);
    return variables;
}

// The rows of a page, and where the next one begins.
static json_t *take_page(struct query *query, const json_t *data, size_t first)
{
    const json_t *list = json_object_get(data, query->noun->list);
    json_t *rows = json_array();
    size_t i;
    json_t *item;
    if (query->noun->is_paged) {
        json_array_foreach(json_get_array(list, "edges"), i, item)
            json_array_append(rows, json_object_get(item, "node"));
        const json_t *info = json_object_get(list, "pageInfo");
        mem_free(query->cursor);
        const char *cursor = json_string_value(json_object_get(info, "endCursor"));
        query->cursor = cursor ? mem_strdup(cursor) : NULL;
        query->is_over = !cursor || !json_is_true(json_object_get(info, "hasNextPage"));
    } else {
        json_array_extend(rows, (json_t *)list);
        size_t count = json_array_size(rows);
        query->is_over = !query->noun->window || count < first;
        if (!query->is_over)
            query->before = json_integer_value(row_at(json_array_get(rows, count - 1), query->noun->window));
    }
    return rows;
}

enum error_code query_next(struct query *query, struct client *client, json_t **out_rows, struct error *err)
{
    if (query->is_over || (query->limit && query->count >= query->limit)) {
        *out_rows = json_array();
        return ERROR_NONE;
    }
    size_t first = page_size(query);
    struct strbuf document;
    strbuf_init(&document, DOCUMENT_BYTES_MAX);
    query_write_document(query, &document);
    json_t *data = NULL;
    enum error_code code = client_query(client, document.at, variables_of(query, first), query->noun->list, &data, err);
    strbuf_finish(&document);
    if (code != ERROR_NONE) return code;
    *out_rows = take_page(query, data, first);
    query->count += json_array_size(*out_rows);
    json_decref(data);
    return ERROR_NONE;
}

enum error_code query_by_id(struct query *query, struct client *client, const char *id, json_t **out, struct error *err)
{
    char *document = mem_printf("query($id: ID!) { %s(id: $id) {%s } }", query->noun->find_name, query->selection);
    json_t *data = NULL;
    enum error_code code =
        client_query(client, document, json_pack("{s:s}", "id", id), query->noun->find_name, &data, err);
    mem_free(document);
    if (code != ERROR_NONE) return code;
    json_t *row = json_object_get(data, query->noun->find_name);
    *out = json_is_object(row) ? json_incref(row) : NULL;
    json_decref(data);
    return ERROR_NONE;
}
