#include <assert.h>
#include <string.h>

#include "api/compile/plan.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum {
    LITERAL_BYTES_MAX = 256 * 1024,
    PLAN_BYTES_FIRST = 8 * 1024,
    PLAN_BYTES_MAX = 4 * 1024 * 1024,
    COLUMNS_MAX = 400
};

// A plan while it is made.
struct planner {
    const struct plan_request *request;
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
    if (!plan) return;
    assert(plan->references > 0);
    if (--plan->references > 0) return;
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
        size_t loop_end = op_add(p, (struct row_op){.kind = ROW_LOOP_END, .jump = loop}); // may move all
        p->plan->ops[loop].jump = loop_end;
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
    size_t end = op_add(p, (struct row_op){.kind = ROW_OBJECT_END}); // may move all
    p->plan->ops[begin].jump = end;
    return code;
}

// ---- the statement ------------------------------------------------------------------------------

static void add_columns(struct planner *p, struct read_sql *sql)
{
    strbuf_add_c(&sql->text, "SELECT ");
    for (size_t i = 0; i < p->column_count; i++) {
        if (i) strbuf_add_c(&sql->text, ", ");
        read_sql_add(sql, p->columns[i], NULL);
    }
    p->plan->first_key = p->needs_keys ? (int)p->column_count : -1;
    for (size_t i = 0; p->needs_keys && i < p->request->window.order->key_count; i++)
        strbuf_addf(&sql->text, "%s(%s)::text", p->column_count + i ? ", " : "", p->request->window.order->keys[i].sql);
    p->plan->id_column = -1;
    if (p->request->id_sql) {
        p->plan->id_column = (int)(p->column_count + (p->needs_keys ? p->request->window.order->key_count : 0));
        strbuf_addf(&sql->text, "%s%s", p->plan->id_column ? ", " : "", p->request->id_sql);
    }
    if (!p->column_count && !p->needs_keys && !p->request->id_sql)
        strbuf_add_c(&sql->text, "NULL"); // rows are counted all the same
}

static void add_joined(struct planner *p, struct read_sql *sql)
{
    const struct binding *binding = p->request->choice.binding;
    strbuf_addf(&sql->text, "WITH page AS MATERIALIZED (SELECT %s.*", binding->alias);
    read_sql_add_rows(sql, &p->request->choice, &p->request->window);
    strbuf_add_byte(&sql->text, ')');
    for (unsigned i = 0; binding->joins[i].name; i++) {
        if (!(p->joins & 1u << i)) continue;
        strbuf_addf(&sql->text, ", %s AS MATERIALIZED (", binding->joins[i].name);
        read_sql_add(sql, binding->joins[i].query, NULL);
        strbuf_add_byte(&sql->text, ')');
    }
    strbuf_add_byte(&sql->text, ' ');
    add_columns(p, sql);
    strbuf_addf(&sql->text, " FROM page %s", binding->alias);
    for (unsigned i = 0; binding->joins[i].name; i++)
        if (p->joins & 1u << i) strbuf_addf(&sql->text, " JOIN %s ON %s", binding->joins[i].name, binding->joins[i].on);
    read_sql_add_order(sql, p->request->window.order, p->request->window.is_reversed);
}

static enum error_code make_statement(struct planner *p)
{
    struct read_sql sql;
    read_sql_init(&sql, &p->plan->read);
    if (p->joins) {
        add_joined(p, &sql);
    } else {
        add_columns(p, &sql);
        read_sql_add_rows(&sql, &p->request->choice, &p->request->window);
    }
    return read_sql_finish(&sql, p->plan->arena, p->err);
}

enum error_code plan_make(const struct plan_request *request, struct str key, struct plan **out, struct error *err)
{
    struct plan *plan = mem_zalloc(sizeof *plan);
    plan->references = 1;
    plan->row_cost = 1;
    list_init(&plan->used);
    plan->arena = arena_create_sized(PLAN_BYTES_FIRST, PLAN_BYTES_MAX);
    plan->key = arena_str(plan->arena, key);
    plan->order_name = request->window.order->name;
    plan->key_count = request->window.order->key_count;
    struct planner p = {.request = request, .plan = plan, .err = err};
    strbuf_init(&p.literal, LITERAL_BYTES_MAX);
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
