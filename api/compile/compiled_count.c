#include "api/compile/compiled_count.h"

#include <assert.h>

#include "api/compile/count_cache.h"
#include "api/compile/read_cursor.h"
#include "api/compile/read_inputs.h"
#include "api/resolvers.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "storage/sql/store_call.h"

enum {
    FENCES_MAX = 2000, // of one answer: of the first ones
    EVERY_MIN = 50,
    EVERY_MAX = 10000,
    TOP_MAX = 100,
    FACETS_MAX = 20,
    STATEMENT_COST = 100, // see graphql.cost_max
    CURSOR_BYTES_MAX = 4096,
    KEY_BYTES_MAX = 2 * 1024 * 1024,
};

// One root field on its way; in the request's arena.
struct count_read {
    struct api_request *request;
    const struct bound_count *count;
    const struct gql_selected *selected;
    struct read_inputs inputs;
    struct row_choice choice;
    const struct bound_order *order;
    bool is_descending, has_fences;
    unsigned number; // every or top
    struct str search;
    const struct bound_facet *facets[FACETS_MAX];
    size_t statement_count; // one, or one a facet
    struct read_statement *statements;
    struct count_flight *flight;
    gql_written on_written;
    void *arg;
};

// ---- arguments ----------------------------------------------------------------------------------

static bool is_selected(const struct gql_selected *selected, const char *name)
{
    struct gql_projection *projection = selected->projection;
    const struct gql_type *type = gql_schema_type(projection->schema, gql_type_ref_name(&selected->def->type));
    const struct gql_collection *fields = gql_collect_inner(projection, selected->field, type);
    for (size_t i = 0; fields && i < fields->count; i++)
        if (str_eq(fields->fields[i].field->name, str_c(name))) return true;
    return false;
}

static enum error_code set_number(struct count_read *read, const char *name, unsigned def, unsigned min, unsigned max,
                                  struct error *err)
{
    int64_t value = json_get_int(read->selected->arguments, name, def);
    if (value < min || value > max)
        return error_set(err, ERROR_INVALID, "%s must be between %u and %u", name, min, max);
    read->number = (unsigned)value;
    return ERROR_NONE;
}

static const struct bound_facet *facet_named(const struct bound_facet *facets, struct str name)
{
    for (; facets->name; facets++)
        if (str_eq(name, str_c(facets->name))) return facets;
    return NULL;
}

static enum error_code set_facets(struct count_read *read, struct error *err)
{
    const json_t *names = json_get_array(read->selected->arguments, "dimensions");
    if (json_array_size(names) > FACETS_MAX)
        return error_set(err, ERROR_INVALID, "dimensions: %zu are given, the limit is %d", json_array_size(names),
                         FACETS_MAX);
    size_t i;
    json_t *name;
    json_array_foreach((json_t *)(uintptr_t)names, i, name)
    {
        const struct bound_facet *facet = facet_named(read->count->facets, json_str(name));
        assert(facet); // every value of the enum is declared
        read->facets[read->statement_count++] = facet;
    }
    read->search = json_get_str(read->selected->arguments, "search");
    return set_number(read, "top", 20, 1, TOP_MAX, err);
}

static enum error_code set_index(struct count_read *read, struct error *err)
{
    read->statement_count = 1;
    read->has_fences = is_selected(read->selected, "fences");
    enum error_code code = read_inputs_order(read->count->query->orders, read->selected->arguments, &read->order,
                                             &read->is_descending, err);
    return code == ERROR_NONE ? set_number(read, "every", 500, EVERY_MIN, EVERY_MAX, err) : code;
}

static enum error_code set_question(struct count_read *read, struct error *err)
{
    struct api_request *request = read->request;
    const struct bound_query *query = read->count->query;
    enum error_code code =
        read_inputs_init(&read->inputs, query->inputs, read->selected->arguments, request->arena, err);
    if (code == ERROR_NONE) code = read->count->facets ? set_facets(read, err) : set_index(read, err);
    if (code != ERROR_NONE) return code;
    read->choice = (struct row_choice){
        .binding = query->binding,
        .inputs = query->inputs,
        .given = read->inputs.given,
        .access = access_predicate_of(&request->principal, request->rules, &query->binding->access)};
    uint64_t max = request->api->options.query_cost_max;
    request->query_cost += read->statement_count * STATEMENT_COST;
    if (!max || request->query_cost <= max) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "the query costs %llu, the limit is %llu (graphql.cost_max)",
                     (unsigned long long)request->query_cost, (unsigned long long)max);
}

// ---- statements ---------------------------------------------------------------------------------

static void make_total(struct read_sql *sql, const struct count_read *read)
{
    strbuf_add_c(&sql->text, "SELECT count(*)");
    read_sql_add_rows(sql, &read->choice, NULL);
}

// The rows at the ends and the begins of intervals, and the last one, whose number is the total.
static void make_fences(struct read_sql *sql, const struct count_read *read)
{
    const struct bound_order *order = read->order;
    strbuf_add_c(&sql->text, "SELECT n, label");
    for (size_t i = 0; i < order->key_count; i++)
        strbuf_addf(&sql->text, ", k%zu", i);
    strbuf_addf(&sql->text,
                " FROM (SELECT (%s)::text AS label, row_number() OVER o AS n, lead(true) OVER o AS has_next",
                order->label ? order->label : order->keys[0].sql);
    for (size_t i = 0; i < order->key_count; i++)
        strbuf_addf(&sql->text, ", (%s)::text AS k%zu", order->keys[i].sql, i);
    read_sql_add_rows(sql, &read->choice, NULL);
    strbuf_add_c(&sql->text, " WINDOW o AS (");
    read_sql_add_order(sql, order, read->is_descending);
    unsigned every = read_sql_param(sql, PLAN_OPTION, 0);
    strbuf_addf(
        &sql->text,
        ")) numbered WHERE (n <= $%u::bigint * %d AND n %% $%u::bigint IN (0, 1)) OR has_next IS NULL ORDER BY n",
        every, FENCES_MAX, every);
}

static bool is_own(const struct bound_facet *facet, const char *filter)
{
    for (const char *const *own = facet->own; *own; own++)
        if (strcmp(*own, filter) == 0) return true;
    return false;
}

static void make_facet(struct read_sql *sql, const struct count_read *read, const struct bound_facet *facet)
{
    struct row_choice choice = read->choice;
    enum plan_given *given = arena_array(read->request->arena, read->inputs.count, sizeof *given);
    for (size_t i = 0; i < read->inputs.count; i++)
        given[i] = is_own(facet, choice.inputs[i].name) ? PLAN_NOT_GIVEN : choice.given[i];
    choice.given = given;
    strbuf_addf(&sql->text, "SELECT value, rows, count(*) OVER () FROM (SELECT (%s)::text AS value, count(*) AS rows",
                facet->sql);
    read_sql_add_rows(sql, &choice, NULL);
    strbuf_add_c(&sql->text, " GROUP BY 1) counted");
    if (read->search.len)
        strbuf_addf(&sql->text, " WHERE strpos(lower(value), lower($%u::text)) > 0",
                    read_sql_param(sql, PLAN_OPTION, 1));
    strbuf_addf(&sql->text, " ORDER BY rows DESC, value LIMIT $%u::bigint", read_sql_param(sql, PLAN_OPTION, 0));
}

static enum error_code make_statements(struct count_read *read, struct error *err)
{
    struct arena *arena = read->request->arena;
    enum error_code code = ERROR_NONE;
    read->statements = arena_array(arena, read->statement_count, sizeof *read->statements);
    for (size_t i = 0; i < read->statement_count && code == ERROR_NONE; i++) {
        struct read_sql sql;
        read->statements[i] = (struct read_statement){0};
        read_sql_init(&sql, &read->statements[i]);
        if (read->count->facets)
            make_facet(&sql, read, read->facets[i]);
        else if (read->has_fences)
            make_fences(&sql, read);
        else
            make_total(&sql, read);
        code = read_sql_finish(&sql, arena, err);
    }
    return code;
}

// ---- values -------------------------------------------------------------------------------------

static int64_t number_at(const struct pg_rows *rows, int row, int column)
{
    uint64_t number = 0;
    if (parse_u64(pg_rows_get(rows, row, column), 0, INT64_MAX, &number, NULL) != ERROR_NONE) return 0;
    return (int64_t)number;
}

static json_t *fence_of(int64_t position, struct str cursor, struct str label)
{
    return json_pack("{s:I, s:o, s:o}", "position", (json_int_t)position, "cursor", json_new_str(cursor), "label",
                     json_new_str(label));
}

// The cursor of a fence is of the row in front of it; the list begins without one.
static json_t *fences_of(const struct count_read *read, const struct pg_rows *rows)
{
    json_t *fences = json_array();
    struct strbuf cursor;
    strbuf_init(&cursor, CURSOR_BYTES_MAX);
    for (int row = 0; row < pg_rows_count(rows); row++) {
        int64_t n = number_at(rows, row, 0);
        if (n % read->number == 0) {
            strbuf_clear(&cursor);
            read_cursor_write(&cursor, read->order->name, rows, row, 2, read->order->key_count);
        }
        if (n % read->number == 1)
            json_array_append_new(fences, fence_of(n - 1, strbuf_str(&cursor), pg_rows_get(rows, row, 1)));
    }
    strbuf_finish(&cursor);
    return fences;
}

static json_t *index_of(const struct count_read *read, const struct pg_rows *rows, const char *counted_at)
{
    int count = pg_rows_count(rows);
    int64_t total = count ? number_at(rows, count - 1, 0) : 0;
    json_t *index = json_pack("{s:I, s:s}", "total", (json_int_t)total, "countedAt", counted_at);
    if (read->has_fences) json_object_set_new(index, "fences", fences_of(read, rows));
    return index;
}

static json_t *facet_of(const struct bound_facet *facet, const struct pg_rows *rows, const char *counted_at)
{
    json_t *values = json_array();
    int count = pg_rows_count(rows);
    for (int row = 0; row < count; row++) {
        json_t *value = pg_rows_is_null(rows, row, 0) ? json_null() : json_new_str(pg_rows_get(rows, row, 0));
        json_array_append_new(values,
                              json_pack("{s:o, s:I}", "value", value, "count", (json_int_t)number_at(rows, row, 1)));
    }
    int64_t more = count ? number_at(rows, 0, 2) - count : 0;
    return json_pack("{s:s, s:o, s:I, s:s}", "dimension", facet->name, "values", values, "more", (json_int_t)more,
                     "countedAt", counted_at);
}

// ---- running ------------------------------------------------------------------------------------

static void on_counted(void *arg, const struct error *err, const json_t *value)
{
    struct count_read *read = arg;
    if (err) {
        read->on_written(read->arg, err, NULL);
        return;
    }
    const struct gql_selected *selected = read->selected;
    const struct gql_place place = {.key = selected->field->key};
    struct strbuf text;
    strbuf_init(&text, selected->answer_bytes_max);
    if (!gql_project_value(selected->projection, &selected->def->type, selected->field, value, &place, &text))
        strbuf_clear(&text);
    read->on_written(read->arg, NULL, &text);
    strbuf_finish(&text);
}

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct count_read *read = arg;
    json_t *value = NULL;
    char counted_at[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(clock_wall_ms(), counted_at);
    if (!err && !read->count->facets) {
        value = index_of(read, &results[count - 1], counted_at);
    } else if (!err) {
        value = json_array();
        for (size_t i = 0; i < read->statement_count; i++)
            json_array_append_new(value,
                                  facet_of(read->facets[i], &results[count - read->statement_count + i], counted_at));
    }
    count_flight_end(read->flight, err, value);
}

static struct pg_param param_value(const struct count_read *read, const struct plan_param *param)
{
    struct api_request *request = read->request;
    switch (param->source) {
    case PLAN_ACCOUNT: return pg_text(str_c(request->principal.account_id));
    case PLAN_ACCESS: return pg_text(read->choice.access.value);
    case PLAN_INPUT: return read->inputs.values[param->index];
    case PLAN_OPTION:
        return param->index ? pg_text(read->search) : pg_text(str_c(arena_printf(request->arena, "%u", read->number)));
    case PLAN_LOW:
    case PLAN_HIGH:
    case PLAN_SKIP: break;
    }
    assert(false);
    return pg_null();
}

static void submit(struct count_read *read)
{
    const struct api_request *request = read->request;
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    pg_batch_generic(batch);
    pg_batch_slow(batch);
    for (size_t i = 0; i < read->statement_count; i++) {
        struct read_statement *made = &read->statements[i];
        struct pg_param params[PLAN_PARAMS_MAX] = {0};
        for (unsigned k = 0; k < made->statement.parameters; k++)
            params[k] = param_value(read, &made->params[k]);
        pg_batch_add(batch, &made->statement, params);
    }
    pg_batch_submit(batch, STORE_READ_MS, on_rows, read);
}

// The statements with all their values: who may not see the same does not share a count.
static void add_key(const struct count_read *read, struct strbuf *key)
{
    strbuf_addf(key, "%s %s %d %u|", read->request->principal.account_id, read->count->field, (int)read->is_descending,
                read->number);
    for (size_t i = 0; i < read->statement_count; i++)
        strbuf_addf(key, "%s|%s|", read->statements[i].name, read->count->facets ? read->facets[i]->name : "");
    for (size_t i = 0; i < read->inputs.count; i++) {
        if (read->inputs.given[i] == PLAN_NOT_GIVEN) continue;
        strbuf_addf(key, "%zu %d ", i, (int)read->inputs.given[i]);
        strbuf_add_json(key, str_of(read->inputs.values[i].at, read->inputs.values[i].len));
    }
    strbuf_add_json(key, read->search);
    access_predicate_add_key(&read->choice.access, key);
    access_predicate_add_values(&read->choice.access, key);
}

static enum error_code join(struct count_read *read, struct error *err)
{
    struct strbuf key;
    strbuf_init(&key, KEY_BYTES_MAX);
    add_key(read, &key);
    enum error_code code = ERROR_NONE;
    if (key.overflow) {
        code = error_set(err, ERROR_TOO_LARGE, "%s: the filters are larger than %d bytes", read->count->field,
                         KEY_BYTES_MAX);
    } else {
        struct count_flight *flight =
            count_cache_join(read->request->api->counts, strbuf_str(&key), read->request->arena, on_counted, read);
        if (flight) { // else read may be gone
            read->flight = flight;
            submit(read);
        }
    }
    strbuf_finish(&key);
    return code;
}

void compiled_count_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                            void *arg)
{
    struct api_request *request = ctx;
    struct count_read *read = arena_alloc(request->arena, sizeof *read);
    *read = (struct count_read){
        .request = request, .count = with, .selected = selected, .on_written = on_written, .arg = arg};
    struct error err;
    enum error_code code = set_question(read, &err);
    if (code == ERROR_NONE) code = make_statements(read, &err);
    if (code != ERROR_NONE) {
        on_written(arg, &err, NULL);
        return;
    }
    code = join(read, &err);
    if (code != ERROR_NONE) on_written(arg, &err, NULL);
}
