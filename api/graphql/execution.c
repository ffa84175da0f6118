#include "api/graphql/execution.h"

#include "api/graphql/validation.h"
#include "api/graphql/variables.h"
#include "base/mem.h"

enum { ARENA_BYTES_MAX = 64 * 1024 * 1024 };

struct execution;

struct root_field {
    struct execution *execution;
    const struct gql_collected *collected;
    json_t *arguments, *value;
    bool failed;
};

struct execution {
    struct gql_request request;
    struct arena *arena;
    struct gql_document document;
    struct gql_problems problems;
    struct gql_projection projection;
    const struct gql_type *root;
    const struct gql_operation *operation;
    json_t *variables;
    struct gql_collection collection;
    struct root_field *fields;
    size_t next, left; // the next to start; those without an answer
    bool starting;     // answers that come at once do not recurse
    gql_answered on_answered;
    void *arg;
};

static void finish(struct execution *x, int status, struct str body)
{
    x->on_answered(x->arg, status, body);
    for (size_t i = 0; i < x->collection.count; i++) {
        json_decref(x->fields[i].arguments);
        json_decref(x->fields[i].value);
    }
    json_decref(x->variables);
    arena_destroy(x->arena);
    mem_free(x);
}

// Nothing ran: errors alone, without data.
static void refuse(struct execution *x)
{
    struct strbuf body;
    strbuf_init(&body, x->request.answer_bytes_max);
    strbuf_add_c(&body, "{\"errors\":");
    gql_problems_write(&x->problems, &body);
    strbuf_add_byte(&body, '}');
    finish(x, 400, strbuf_str(&body));
    strbuf_finish(&body);
}

static void answer(struct execution *x)
{
    struct strbuf body;
    strbuf_init(&body, x->request.answer_bytes_max);
    strbuf_add_c(&body, "{\"data\":");
    size_t start = body.len;
    bool whole = true;
    strbuf_add_byte(&body, '{');
    for (size_t i = 0; i < x->collection.count && whole; i++) {
        if (i) strbuf_add_byte(&body, ',');
        const struct gql_collected *collected = x->fields[i].collected;
        const struct gql_field_def *def = gql_type_field(x->root, collected->field->name);
        if (x->fields[i].failed && def->type.non_null) {
            whole = false; // its error was noted; a second one for the null would say nothing new
        } else {
            whole = gql_project_root(&x->projection, x->root, collected, x->fields[i].value, &body);
        }
    }
    strbuf_add_byte(&body, '}');
    if (body.overflow) {
        gql_problem_add(&x->problems, (struct gql_location){0}, "RESPONSE_TOO_LARGE", NULL,
                        "The answer is larger than %zu bytes; ask for pages (pagination: {first: 100}).",
                        x->request.answer_bytes_max);
        body.overflow = false;
        whole = false;
    }
    if (!whole) {
        body.len = start;
        strbuf_add_c(&body, "null");
    }
    if (x->problems.count) {
        strbuf_add_c(&body, ",\"errors\":");
        gql_problems_write(&x->problems, &body);
    }
    strbuf_add_byte(&body, '}');
    finish(x, 200, strbuf_str(&body));
    strbuf_finish(&body);
}

static const char *code_of(enum error_code code)
{
    switch (code) {
    case ERROR_INVALID:
    case ERROR_TOO_LARGE: return "BAD_USER_INPUT";
    case ERROR_NOT_FOUND: return "NOT_FOUND";
    case ERROR_CONFLICT: return "CONFLICT";
    case ERROR_UNAUTHENTICATED: return "UNAUTHENTICATED";
    case ERROR_FORBIDDEN: return "FORBIDDEN";
    case ERROR_UNAVAILABLE: return "SERVICE_UNAVAILABLE";
    case ERROR_TIMEOUT: return "TIMEOUT";
    default: return "INTERNAL_SERVER_ERROR";
    }
}

static void start_fields(struct execution *x);

static void on_resolved(void *arg, const struct error *err, json_t *value)
{
    struct root_field *field = arg;
    struct execution *x = field->execution;
    if (err) {
        struct strbuf path;
        strbuf_init(&path, 512);
        strbuf_add_byte(&path, '[');
        strbuf_add_json(&path, field->collected->key);
        strbuf_add_byte(&path, ']');
        gql_problem_add(&x->problems, field->collected->field->at, code_of(err->code),
                        arena_cstr(x->arena, strbuf_str(&path)), "%s", err->text);
        strbuf_finish(&path);
        field->failed = true;
    } else {
        field->value = value;
    }
    x->left--;
    if (!x->starting) start_fields(x);
}

static void start_field(struct root_field *field)
{
    struct execution *x = field->execution;
    struct str name = field->collected->field->name;
    if (str_eq(name, STR("__typename"))) {
        on_resolved(field, NULL, NULL);
        return;
    }
    const struct gql_field_def *def = gql_type_field(x->root, name);
    field->arguments = gql_coerce_arguments(x->request.schema, def, field->collected->field->arguments, x->variables);
    for (size_t i = 0; i < x->request.resolver_count; i++) {
        const struct gql_resolver *resolver = &x->request.resolvers[i];
        if (resolver->kind != x->operation->kind || !str_eq(str_c(resolver->field), name)) continue;
        resolver->resolve(x->request.ctx, field->arguments, on_resolved, field);
        return;
    }
    struct error err;
    error_set(&err, ERROR_INVALID, "\"%.*s\" is not offered by this platform", STR_ARG(name));
    on_resolved(field, &err, NULL);
}

static void start_fields(struct execution *x)
{
    bool one_by_one = x->operation->kind == GQL_MUTATION;
    x->starting = true;
    while (x->next < x->collection.count) {
        size_t unstarted = x->collection.count - x->next;
        if (one_by_one && x->left > unstarted) break; // one is under way
        start_field(&x->fields[x->next++]);
    }
    x->starting = false;
    if (x->left == 0) answer(x);
}

static const struct gql_operation *choose(struct execution *x)
{
    struct str name = x->request.operation_name;
    const struct gql_operation *operation = x->document.operations;
    if (name.len == 0 && !operation->next) return operation;
    for (; operation && name.len; operation = operation->next)
        if (str_eq(operation->name, name)) return operation;
    if (name.len)
        gql_problem_add(&x->problems, (struct gql_location){0}, "OPERATION_RESOLUTION_FAILURE", NULL,
                        "Unknown operation named \"%.*s\".", STR_ARG(str_first(name, 100)));
    else
        gql_problem_add(&x->problems, (struct gql_location){0}, "OPERATION_RESOLUTION_FAILURE", NULL,
                        "Must provide operation name if query contains multiple operations.");
    return NULL;
}

static bool prepare(struct execution *x)
{
    struct error err;
    enum error_code code = gql_parse(x->request.query, x->request.limits, x->arena, &x->document, &err);
    if (code != ERROR_NONE) {
        const char *name = code == ERROR_TOO_LARGE ? "QUERY_TOO_LARGE" : "GRAPHQL_PARSE_FAILED";
        gql_problem_add(&x->problems, (struct gql_location){0}, name, NULL, "%s", err.text);
        return false;
    }
    gql_validate(x->request.schema, &x->document, x->request.limits, &x->problems);
    if (x->problems.count) return false;
    x->operation = choose(x);
    if (!x->operation) return false;
    if (x->operation->kind == GQL_MUTATION && !x->request.mutations_allowed) {
        gql_problem_add(&x->problems, x->operation->at, "BAD_REQUEST", NULL, "Mutations are taken with POST only.");
        return false;
    }
    x->variables = gql_coerce_variables(x->request.schema, x->operation, x->request.variables, &x->problems);
    return x->variables != NULL;
}

void gql_execute(const struct gql_request *request, gql_answered on_answered, void *arg)
{
    struct execution *x = mem_zalloc(sizeof *x);
    x->request = *request;
    x->arena = arena_create(ARENA_BYTES_MAX);
    x->request.query = arena_str(x->arena, request->query);
    x->request.operation_name = arena_str(x->arena, request->operation_name);
    x->on_answered = on_answered;
    x->arg = arg;
    gql_problems_init(&x->problems, x->arena);
    if (!prepare(x)) {
        refuse(x);
        return;
    }
    x->root = gql_schema_root(request->schema, x->operation->kind);
    x->projection = (struct gql_projection){.schema = request->schema,
                                            .document = &x->document,
                                            .variables = x->variables,
                                            .problems = &x->problems,
                                            .arena = x->arena};
    gql_collect(&x->projection, x->root, x->operation->selections, &x->collection);
    x->fields = arena_array(x->arena, x->collection.count, sizeof *x->fields);
    for (size_t i = 0; i < x->collection.count; i++)
        x->fields[i] = (struct root_field){.execution = x, .collected = &x->collection.fields[i]};
    x->left = x->collection.count;
    start_fields(x);
}
