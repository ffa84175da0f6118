#include "api/compile/read_sql.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"

enum { SQL_BYTES_MAX = 256 * 1024 };

void read_sql_init(struct read_sql *sql, struct read_statement *statement)
{
    strbuf_init(&sql->text, SQL_BYTES_MAX);
    sql->statement = statement;
}

unsigned read_sql_param(struct read_sql *sql, enum plan_source source, size_t index)
{
    struct read_statement *made = sql->statement;
    for (unsigned i = 0; i < made->statement.parameters; i++)
        if (made->params[i].source == source && made->params[i].index == index) return i + 1;
    assert(made->statement.parameters < PLAN_PARAMS_MAX);
    made->params[made->statement.parameters] = (struct plan_param){source, index};
    return ++made->statement.parameters;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static void add_part(struct read_sql *sql, const char *text, size_t len, const char *value)
{
    bool is_quoted = false;
    for (const char *at = text; at < text + len; at++) {
        if (*at == '\'') is_quoted = !is_quoted;
        bool is_parameter = !is_quoted && *at == ':' && at[1] != ':' && (at == text || at[-1] != ':') && is_name(at[1]);
        if (!is_parameter) {
            strbuf_add_byte(&sql->text, *at);
            continue;
        }
        size_t name_len = 1;
        while (is_name(at[name_len]))
            name_len++;
        struct str name = str_of(at + 1, name_len - 1);
        if (str_eq(name, STR("account_id"))) {
            strbuf_addf(&sql->text, "$%u", read_sql_param(sql, PLAN_ACCOUNT, 0));
        } else {
            assert(value && str_eq(name, STR("value")));
            strbuf_add_c(&sql->text, value);
        }
        at += name_len - 1;
    }
}

void read_sql_add(struct read_sql *sql, const char *text, const char *value)
{
    add_part(sql, text, strlen(text), value);
}

static const char *cast_of(enum bound_value type)
{
    switch (type) {
    case BOUND_VALUE_TEXTS: return "text[]";
    case BOUND_VALUE_BOOLEAN: return "boolean";
    case BOUND_VALUE_NUMBER: return "bigint";
    case BOUND_VALUE_TIME: return "timestamptz";
    case BOUND_VALUE_TEXT:
    case BOUND_VALUE_REFUSED: break;
    }
    return "text";
}

enum { VALUE_BYTES = 40 };

// What stands for :value.
static void set_value(struct read_sql *sql, const struct row_choice *choice, size_t index, char out[VALUE_BYTES])
{
    enum plan_given given = choice->given[index];
    if (given == PLAN_TRUE || given == PLAN_FALSE)
        snprintf(out, VALUE_BYTES, "%s", given == PLAN_TRUE ? "true" : "false");
    else
        snprintf(out, VALUE_BYTES, "$%u::%s", read_sql_param(sql, PLAN_INPUT, index),
                 given == PLAN_ONE ? "text" : cast_of(choice->inputs[index].type));
}

// One value of a list is an equality, which an index that goes on with the order's keys can serve.
static void add_input(struct read_sql *sql, const struct row_choice *choice, size_t index)
{
    static const char any[] = "= ANY (:value)";
    const struct bound_input *input = &choice->inputs[index];
    enum plan_given given = choice->given[index];
    char value[VALUE_BYTES];
    set_value(sql, choice, index, value);
    strbuf_add_c(&sql->text, " AND (");
    const char *rest = input->sql;
    for (const char *at; given == PLAN_ONE && (at = strstr(rest, any)); rest = at + sizeof any - 1) {
        add_part(sql, rest, (size_t)(at - rest), value);
        strbuf_addf(&sql->text, "= %s", value);
    }
    read_sql_add(sql, rest, value);
    if (given == PLAN_ALSO) strbuf_addf(&sql->text, " OR %s", input->also_sql);
    strbuf_add_byte(&sql->text, ')');
}

static bool is_uniform(const struct bound_order *order)
{
    for (size_t i = 1; i < order->key_count; i++)
        if (order->keys[i].is_down != order->keys[0].is_down) return false;
    return true;
}

// Rows behind the bound: (a, b) > ($1, $2), or where directions differ a >= $1 AND (a > $1 OR (a =
// $1 AND b < $2)), whose first condition an index serves.
static void add_bound(struct read_sql *sql, const struct bound_order *order, enum plan_source source)
{
    struct strbuf *text = &sql->text;
    bool is_low = source == PLAN_LOW;
    strbuf_add_c(text, " AND (");
    if (is_uniform(order)) {
        for (size_t i = 0; i < order->key_count; i++)
            strbuf_addf(text, "%s%s", i ? ", " : "", order->keys[i].sql);
        strbuf_addf(text, ") %s (", order->keys[0].is_down != is_low ? ">" : "<");
        for (size_t i = 0; i < order->key_count; i++)
            strbuf_addf(text, "%s$%u", i ? ", " : "", read_sql_param(sql, source, i));
        strbuf_add_byte(text, ')');
        return;
    }
    const struct bound_key *first = &order->keys[0];
    strbuf_addf(text, "%s %s $%u AND (", first->sql,
                first->is_down != is_low ? ">=" : "<=", read_sql_param(sql, source, 0));
    for (size_t i = 0; i < order->key_count; i++) {
        const struct bound_key *key = &order->keys[i];
        unsigned number = read_sql_param(sql, source, i);
        strbuf_addf(text, "%s %s $%u", key->sql, key->is_down != is_low ? ">" : "<", number);
        if (i + 1 < order->key_count) strbuf_addf(text, " OR (%s = $%u AND (", key->sql, number);
    }
    for (size_t i = 0; i + 1 < order->key_count; i++)
        strbuf_add_c(text, "))");
    strbuf_add_c(text, "))");
}

void read_sql_add_order(struct read_sql *sql, const struct bound_order *order, bool is_reversed)
{
    strbuf_add_c(&sql->text, " ORDER BY ");
    for (size_t i = 0; i < order->key_count; i++)
        strbuf_addf(&sql->text, "%s%s%s", i ? ", " : "", order->keys[i].sql,
                    order->keys[i].is_down != is_reversed ? " DESC" : "");
}

enum { FOUND_MAX = 1000, NOT_FOUND = 10000 };

// The condition whose rows an index finds by their keys; NOT_FOUND: none is given.
static size_t found_by(const struct row_choice *choice)
{
    for (size_t i = 0; choice->inputs[i].name; i++)
        if (choice->inputs[i].found && choice->given[i] != PLAN_NOT_GIVEN) return i;
    return NOT_FOUND;
}

static void add_conditions(struct read_sql *sql, const struct row_choice *choice, size_t without)
{
    const struct binding *binding = choice->binding;
    strbuf_addf(&sql->text, " FROM %s %s WHERE ", binding->from, binding->alias);
    read_sql_add(sql, binding->scope, NULL);
    if (choice->access.scope == ACCESS_NOTHING) strbuf_add_c(&sql->text, " AND false");
    if (choice->access.scope == ACCESS_EQUAL)
        strbuf_addf(&sql->text, " AND %s = $%u", choice->access.column, read_sql_param(sql, PLAN_ACCESS, 0));
    if (choice->access.scope == ACCESS_RULES) {
        unsigned parameter = read_sql_param(sql, PLAN_ACCESS, 0);
        strbuf_add_c(&sql->text, " AND ");
        access_predicate_write(&choice->access, parameter, &sql->text);
    }
    for (size_t i = 0; choice->inputs[i].name; i++)
        if (choice->given[i] != PLAN_NOT_GIVEN && i != without) add_input(sql, choice, i);
}

static void add_window(struct read_sql *sql, const struct binding *binding, const struct row_window *window,
                       bool with_skipped)
{
    if (!window) return;
    if (window->has_low) add_bound(sql, window->order, PLAN_LOW);
    if (window->has_high) add_bound(sql, window->order, PLAN_HIGH);
    if (binding->group) strbuf_addf(&sql->text, " GROUP BY %s", binding->group);
    read_sql_add_order(sql, window->order, window->is_reversed);
    strbuf_addf(&sql->text, " LIMIT %u", window->limit);
    if (!window->has_skip) return;
    strbuf_addf(&sql->text, with_skipped ? " + $%u::bigint" : " OFFSET $%u::bigint", read_sql_param(sql, PLAN_SKIP, 0));
}

// Rows that few others are like are read by their keys. Where there are more than FOUND_MAX, a page
// of them is soon full when rows are read in its order.
static void add_found(struct read_sql *sql, const struct row_choice *choice, size_t by, const struct row_window *window)
{
    const struct binding *binding = choice->binding;
    char value[VALUE_BYTES];
    set_value(sql, choice, by, value);
    const char *found = choice->inputs[by].found, *limit = strstr(found, ":limit");
    strbuf_add_c(&sql->text, " FROM (WITH found AS MATERIALIZED (SELECT * FROM ");
    add_part(sql, found, (size_t)(limit - found), value);
    if (window)
        strbuf_addf(&sql->text, "%d", FOUND_MAX + 1);
    else
        strbuf_add_c(&sql->text, "NULL");
    strbuf_addf(&sql->text, "%s) SELECT %s.*", limit + strlen(":limit"), binding->alias);
    add_conditions(sql, choice, by);
    strbuf_addf(&sql->text, " AND (%s) IN (SELECT * FROM found)", binding->key);
    if (window) {
        strbuf_addf(&sql->text, " AND (SELECT count(*) FROM found) <= %d UNION ALL (SELECT %s.*", FOUND_MAX,
                    binding->alias);
        add_conditions(sql, choice, NOT_FOUND);
        strbuf_addf(&sql->text, " AND (SELECT count(*) FROM found) > %d", FOUND_MAX);
        add_window(sql, binding, window, true);
        strbuf_add_byte(&sql->text, ')');
    }
    strbuf_addf(&sql->text, ") %s WHERE true", binding->alias);
}

void read_sql_add_rows(struct read_sql *sql, const struct row_choice *choice, const struct row_window *window)
{
    size_t by = found_by(choice);
    if (by == NOT_FOUND)
        add_conditions(sql, choice, NOT_FOUND);
    else
        add_found(sql, choice, by, window);
    add_window(sql, choice->binding, window, false);
}

enum error_code read_sql_finish(struct read_sql *sql, struct arena *arena, struct error *err)
{
    struct read_statement *made = sql->statement;
    uint8_t hash[ID_SHA256_BYTES];
    id_sha256(sql->text.at, sql->text.len, hash);
    int len = snprintf(made->name, sizeof made->name, "read_");
    for (size_t i = 0; i < 16; i++)
        len += snprintf(made->name + len, sizeof made->name - (size_t)len, "%02x", hash[i]);
    made->statement.name = made->name;
    made->statement.sql = arena_cstr(arena, strbuf_str(&sql->text));
    made->statement.is_dynamic = true;
    bool fits = !sql->text.overflow;
    strbuf_finish(&sql->text);
    return fits ? ERROR_NONE : error_set(err, ERROR_TOO_LARGE, "the selection is too large");
}
