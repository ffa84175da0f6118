#include <assert.h>
#include <stdio.h>

#include "api/compile/plan.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { SQL_BYTES_MAX = 256 * 1024, PLAN_BYTES_FIRST = 8 * 1024, PLAN_BYTES_MAX = 4 * 1024 * 1024, COLUMNS_MAX = 400 };

// A plan while it is made.
struct planner {
    const struct plan_request *request;
    const struct binding *binding;
    struct plan *plan;
    struct strbuf literal; // the text in front of the next operation
    size_t op_cap;
    const char *columns[COLUMNS_MAX];
    size_t column_count;
    unsigned joins;
    bool needs_keys;
    struct error *err;
};

void plan_unref(struct plan *plan)
{
    if (!plan || --plan->references > 0) return;
    arena_destroy(plan->arena);
    mem_free(plan);
}

// ---- the program --------------------------------------------------------------------------------

static struct row_op *op_push(struct planner *p, struct row_op op)
{
    struct plan *plan = p->plan;
    if (plan->op_count == p->op_cap) {
        p->op_cap = p->op_cap ? p->op_cap * 2 : 32;
        struct row_op *ops = arena_array(plan->arena, p->op_cap, sizeof *ops);
        if (plan->op_count) memcpy(ops, plan->ops, plan->op_count * sizeof *ops);
        plan->ops = ops;
    }
    plan->ops[plan->op_count] = op;
    return &plan->ops[plan->op_count++];
}

static void flush_literal(struct planner *p)
{
    if (!p->literal.len) return;
    op_push(p, (struct row_op){.kind = ROW_TEXT, .text = arena_str(p->plan->arena, strbuf_str(&p->literal))});
    strbuf_clear(&p->literal);
}

// Returns its index.
static size_t op_add(struct planner *p, struct row_op op)
{
    flush_literal(p);
    op_push(p, op);
    return p->plan->op_count - 1;
}

static enum error_code column_of(struct planner *p, const char *sql, unsigned joins, int *out)
{
    p->joins |= joins;
    for (size_t i = 0; i < p->column_count; i++)
        if (strcmp(p->columns[i], sql) == 0) {
            *out = (int)i;
            return ERROR_NONE;
        }
    if (p->column_count == COLUMNS_MAX)
        return error_set(p->err, ERROR_TOO_LARGE, "more than %d columns are selected", COLUMNS_MAX);
    p->columns[p->column_count] = sql;
    *out = (int)p->column_count++;
    return ERROR_NONE;
}

static enum error_code add_leaf(struct planner *p, size_t index)
{
    const struct shape_node *node = &p->request->shape->nodes[index];
    if (!node->field)
        return error_set(p->err, ERROR_INVALID, "the field \"%.*s\" of %s is not answered by this platform",
                         STR_ARG(node->def->name), p->request->query->field);
    if (node->field->kind == BOUND_CONSTANT) {
        bool is_scalar = node->field->sql[0] != '['; // an empty list is the same for any selection
        assert(is_scalar || strcmp(node->field->sql, "[]") == 0);
        strbuf_add_c(&p->literal, node->field->sql);
        return ERROR_NONE;
    }
    struct row_op op = {
        .kind = ROW_COLUMN,
        .value = node->field->kind,
        .is_nullable = !node->def->type.non_null,
        .node = index,
        .type = gql_schema_type(p->request->shape->projection->schema, gql_type_ref_name(&node->def->type))};
    if (op.value == BOUND_JSON || op.value == BOUND_PAIRS || op.value == BOUND_MANIFEST) p->plan->row_cost++;
    enum error_code code = column_of(p, node->field->sql, node->field->joins, &op.column);
    if (code == ERROR_NONE) op_add(p, op);
    return code;
}

static enum error_code add_object(struct planner *p, size_t index, bool is_nullable);

static enum error_code add_node(struct planner *p, size_t index)
{
    const struct shape_node *node = &p->request->shape->nodes[index];
    strbuf_add_json(&p->literal, node->collected->key);
    strbuf_add_byte(&p->literal, ':');
    switch (node->role) {
    case SHAPE_TYPENAME: strbuf_add_json(&p->literal, node->owner->name); break;
    case SHAPE_OBJECT: return add_object(p, index, !node->def->type.non_null);
    case SHAPE_LEAF: return add_leaf(p, index);
    case SHAPE_HAS_NEXT: op_add(p, (struct row_op){.kind = ROW_HAS_NEXT}); break;
    case SHAPE_HAS_PREV: op_add(p, (struct row_op){.kind = ROW_HAS_PREV}); break;
    case SHAPE_CURSOR: op_add(p, (struct row_op){.kind = ROW_CURSOR}); break;
    case SHAPE_START_CURSOR: op_add(p, (struct row_op){.kind = ROW_START_CURSOR}); break;
    case SHAPE_END_CURSOR: op_add(p, (struct row_op){.kind = ROW_END_CURSOR}); break;
    case SHAPE_EDGES: {
        strbuf_add_byte(&p->literal, '[');
        size_t loop = op_add(p, (struct row_op){.kind = ROW_LOOP, .node = index});
        const struct gql_type_ref *item = node->def->type.item;
        if (add_object(p, index, item && !item->non_null) != ERROR_NONE) return p->err->code;
        p->plan->ops[loop].jump = op_add(p, (struct row_op){.kind = ROW_LOOP_END, .jump = loop});
        strbuf_add_byte(&p->literal, ']');
        break;
    }
    }
    if (node->role == SHAPE_CURSOR || node->role == SHAPE_START_CURSOR || node->role == SHAPE_END_CURSOR)
        p->needs_keys = true;
    return ERROR_NONE;
}

static enum error_code add_fields(struct planner *p, size_t index)
{
    const struct shape *shape = p->request->shape;
    strbuf_add_byte(&p->literal, '{');
    for (size_t child = index + 1; child < shape->nodes[index].end; child = shape->nodes[child].end) {
        if (child > index + 1) strbuf_add_byte(&p->literal, ',');
        if (add_node(p, child) != ERROR_NONE) return p->err->code;
    }
    strbuf_add_byte(&p->literal, '}');
    return ERROR_NONE;
}

static enum error_code add_object(struct planner *p, size_t index, bool is_nullable)
{
    const struct shape_node *node = &p->request->shape->nodes[index];
    struct row_op op = {.kind = ROW_OBJECT, .column = -1, .node = index, .is_nullable = is_nullable};
    op.needs_row = index == 0 && !p->request->query->is_list;
    if (!is_nullable && !node->object && !op.needs_row) return add_fields(p, index);
    if (node->object && column_of(p, node->object->sql, node->object->joins, &op.column) != ERROR_NONE)
        return p->err->code;
    size_t begin = op_add(p, op);
    enum error_code code = add_fields(p, index);
    p->plan->ops[begin].jump = op_add(p, (struct row_op){.kind = ROW_OBJECT_END});
    return code;
}

// ---- the statement ------------------------------------------------------------------------------

static unsigned parameter(struct planner *p, enum plan_source source, size_t index)
{
    struct plan *plan = p->plan;
    for (unsigned i = 0; i < plan->statement.parameters; i++)
        if (plan->params[i].source == source && plan->params[i].index == index) return i + 1;
    assert(plan->statement.parameters < PLAN_PARAMS_MAX);
    plan->params[plan->statement.parameters] = (struct plan_param){source, index};
    return ++plan->statement.parameters;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// The text with :account_id and :value as parameters; value is what stands for the latter. Not
// inside of quotes.
static void add_sql(struct planner *p, struct strbuf *out, const char *text, const char *value)
{
    bool is_quoted = false;
    for (const char *at = text; *at; at++) {
        if (*at == '\'') is_quoted = !is_quoted;
        bool is_parameter = !is_quoted && *at == ':' && at[1] != ':' && (at == text || at[-1] != ':') && is_name(at[1]);
        if (!is_parameter) {
            strbuf_add_byte(out, *at);
            continue;
        }
        size_t len = 1;
        while (is_name(at[len]))
            len++;
        struct str name = str_of(at + 1, len - 1);
        if (str_eq(name, STR("account_id"))) {
            strbuf_addf(out, "$%u", parameter(p, PLAN_ACCOUNT, 0));
        } else {
            assert(value && str_eq(name, STR("value")));
            strbuf_add_c(out, value);
        }
        at += len - 1;
    }
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

// One value of a list is an equality, which an index that goes on with the order's keys can serve.
static void add_input(struct planner *p, struct strbuf *sql, size_t index)
{
    static const char any[] = "= ANY (:value)";
    const struct bound_input *input = &p->request->query->inputs[index];
    char value[40];
    snprintf(value, sizeof value, "$%u::%s", parameter(p, PLAN_INPUT, index),
             p->request->given[index] == PLAN_ONE ? "text" : cast_of(input->type));
    strbuf_add_c(sql, " AND (");
    const char *rest = input->sql;
    for (const char *at; p->request->given[index] == PLAN_ONE && (at = strstr(rest, any)); rest = at + sizeof any - 1) {
        add_sql(p, sql, arena_cstr(p->plan->arena, str_of(rest, (size_t)(at - rest))), value);
        strbuf_addf(sql, "= %s", value);
    }
    add_sql(p, sql, rest, value);
    if (p->request->given[index] == PLAN_ALSO) strbuf_addf(sql, " OR %s", input->also_sql);
    strbuf_add_byte(sql, ')');
}

static bool is_uniform(const struct bound_order *order)
{
    for (size_t i = 1; i < order->key_count; i++)
        if (order->keys[i].is_down != order->keys[0].is_down) return false;
    return true;
}

// Rows behind the bound: (a, b) > ($1, $2), or where directions differ a >= $1 AND (a > $1 OR (a =
// $1 AND b < $2)), whose first condition an index serves.
static void add_bound(struct planner *p, struct strbuf *sql, enum plan_source source)
{
    const struct bound_order *order = p->request->order;
    bool is_low = source == PLAN_LOW;
    strbuf_add_c(sql, " AND (");
    if (is_uniform(order)) {
        for (size_t i = 0; i < order->key_count; i++)
            strbuf_addf(sql, "%s%s", i ? ", " : "", order->keys[i].sql);
        strbuf_addf(sql, ") %s (", order->keys[0].is_down != is_low ? ">" : "<");
        for (size_t i = 0; i < order->key_count; i++)
            strbuf_addf(sql, "%s$%u", i ? ", " : "", parameter(p, source, i));
        strbuf_add_byte(sql, ')');
        return;
    }
    const struct bound_key *first = &order->keys[0];
    strbuf_addf(sql, "%s %s $%u AND (", first->sql, first->is_down != is_low ? ">=" : "<=", parameter(p, source, 0));
    for (size_t i = 0; i < order->key_count; i++) {
        const struct bound_key *key = &order->keys[i];
        unsigned number = parameter(p, source, i);
        strbuf_addf(sql, "%s %s $%u", key->sql, key->is_down != is_low ? ">" : "<", number);
        if (i + 1 < order->key_count) strbuf_addf(sql, " OR (%s = $%u AND (", key->sql, number);
    }
    for (size_t i = 0; i + 1 < order->key_count; i++)
        strbuf_add_c(sql, "))");
    strbuf_add_c(sql, "))");
}

static void add_order(const struct planner *p, struct strbuf *sql)
{
    const struct bound_order *order = p->request->order;
    strbuf_add_c(sql, " ORDER BY ");
    for (size_t i = 0; i < order->key_count; i++)
        strbuf_addf(sql, "%s%s%s", i ? ", " : "", order->keys[i].sql,
                    order->keys[i].is_down != p->request->is_reversed ? " DESC" : "");
}

static void add_page(struct planner *p, struct strbuf *sql)
{
    const struct binding *binding = p->binding;
    const struct plan_request *request = p->request;
    strbuf_addf(sql, " FROM %s %s WHERE ", binding->from, binding->alias);
    add_sql(p, sql, binding->scope, NULL);
    if (request->access.scope == ACCESS_NOTHING) strbuf_add_c(sql, " AND false");
    if (request->access.scope == ACCESS_EQUAL)
        strbuf_addf(sql, " AND %s = $%u", request->access.column, parameter(p, PLAN_ACCESS, 0));
    for (size_t i = 0; request->query->inputs[i].name; i++)
        if (request->given[i] != PLAN_NOT_GIVEN) add_input(p, sql, i);
    if (request->has_low) add_bound(p, sql, PLAN_LOW);
    if (request->has_high) add_bound(p, sql, PLAN_HIGH);
    add_order(p, sql);
    strbuf_addf(sql, " LIMIT %u", request->limit);
}

static void add_columns(struct planner *p, struct strbuf *sql)
{
    strbuf_add_c(sql, "SELECT ");
    for (size_t i = 0; i < p->column_count; i++) {
        if (i) strbuf_add_c(sql, ", ");
        add_sql(p, sql, p->columns[i], NULL);
    }
    p->plan->first_key = p->needs_keys ? (int)p->column_count : -1;
    for (size_t i = 0; p->needs_keys && i < p->request->order->key_count; i++)
        strbuf_addf(sql, "%s(%s)::text", p->column_count + i ? ", " : "", p->request->order->keys[i].sql);
    if (!p->column_count && !p->needs_keys) strbuf_add_c(sql, "NULL"); // rows are counted all the same
}

static void add_joined(struct planner *p, struct strbuf *sql)
{
    const struct binding *binding = p->binding;
    strbuf_addf(sql, "WITH page AS MATERIALIZED (SELECT %s.*", binding->alias);
    add_page(p, sql);
    strbuf_add_byte(sql, ')');
    for (unsigned i = 0; binding->joins[i].name; i++) {
        if (!(p->joins & 1u << i)) continue;
        strbuf_addf(sql, ", %s AS MATERIALIZED (", binding->joins[i].name);
        add_sql(p, sql, binding->joins[i].query, NULL);
        strbuf_add_byte(sql, ')');
    }
    strbuf_add_byte(sql, ' ');
    add_columns(p, sql);
    strbuf_addf(sql, " FROM page %s", binding->alias);
    for (unsigned i = 0; binding->joins[i].name; i++)
        if (p->joins & 1u << i) strbuf_addf(sql, " JOIN %s ON %s", binding->joins[i].name, binding->joins[i].on);
    add_order(p, sql);
}

static enum error_code make_statement(struct planner *p)
{
    struct plan *plan = p->plan;
    struct strbuf sql;
    strbuf_init(&sql, SQL_BYTES_MAX);
    if (p->joins) {
        add_joined(p, &sql);
    } else {
        add_columns(p, &sql);
        add_page(p, &sql);
    }
    uint8_t hash[ID_SHA256_BYTES];
    id_sha256(sql.at, sql.len, hash);
    int len = snprintf(plan->statement_name, sizeof plan->statement_name, "read_");
    for (size_t i = 0; i < 16; i++)
        len += snprintf(plan->statement_name + len, sizeof plan->statement_name - (size_t)len, "%02x", hash[i]);
    plan->statement.name = plan->statement_name;
    plan->statement.sql = arena_cstr(plan->arena, strbuf_str(&sql));
    plan->statement.is_dynamic = true;
    bool fits = !sql.overflow;
    strbuf_finish(&sql);
    return fits ? ERROR_NONE : error_set(p->err, ERROR_TOO_LARGE, "the selection is too large");
}

enum error_code plan_make(const struct plan_request *request, struct str key, struct plan **out, struct error *err)
{
    struct plan *plan = mem_zalloc(sizeof *plan);
    plan->references = 1;
    plan->row_cost = 1;
    list_init(&plan->used);
    plan->arena = arena_create_sized(PLAN_BYTES_FIRST, PLAN_BYTES_MAX);
    plan->key = arena_str(plan->arena, key);
    plan->order_name = request->order->name;
    plan->key_count = request->order->key_count;
    struct planner p = {.request = request, .binding = request->query->binding, .plan = plan, .err = err};
    strbuf_init(&p.literal, SQL_BYTES_MAX);
    enum error_code code = add_object(&p, 0, !request->shape->nodes[0].def->type.non_null);
    flush_literal(&p);
    if (code == ERROR_NONE && p.literal.overflow) code = error_set(err, ERROR_TOO_LARGE, "the selection is too large");
    if (code == ERROR_NONE) code = make_statement(&p);
    strbuf_finish(&p.literal);
    if (code == ERROR_NONE)
        *out = plan;
    else
        plan_unref(plan);
    return code;
}
