#include "api/graphql/execution.h"

#include "api/graphql/introspection.h"
#include "api/graphql/validation.h"
#include "api/graphql/variables.h"
#include "base/log/log.h"
#include "base/mem.h"

// The arena holds the document, what is merged of it, and texts of problems: all bounded by tokens_max, by
// SELECTIONS_MAX and by GQL_PROBLEMS_MAX.
enum { ARENA_BYTES_MAX = 64 * 1024 * 1024, SELECTIONS_MAX = 20000, PATH_BYTES_MAX = 4096 };

struct execution;

struct root_field {
    struct execution *execution;
    struct gql_collected *collected;
    json_t *arguments, *value;
    struct gql_selected selected; // of a resolver that writes
    struct strbuf text;
    bool is_written;
    bool failed, is_strict;
};

struct execution {
    struct gql_request request;
    struct arena *arena;
    struct gql_document document;
    int refusal; // the status when nothing runs
    struct gql_problems problems;
    struct gql_projection projection;
    const struct gql_type *root;
    const struct gql_operation *operation;
    json_t *variables;
    struct root_field *fields;
    size_t field_count;
    size_t next, left;   // the next to start; those without an answer
    bool starting;       // answers that come at once do not recurse
    bool is_unversioned; // a resolver ran that is
    bool is_refused;     // by the resolver of a field that is strict, the only one
    gql_answered on_answered;
    void *arg;
};

static void finish(struct execution *x, int status, struct str body)
{
    x->on_answered(x->arg, status, body);
    for (size_t i = 0; i < x->field_count; i++) {
        json_decref(x->fields[i].arguments);
        json_decref(x->fields[i].value);
        strbuf_finish(&x->fields[i].text);
    }
    json_decref(x->variables);
    arena_destroy(x->arena);
    mem_free(x);
}

// Nothing ran: errors alone, without data.
static void refuse(struct execution *x)
{
    struct strbuf body;
    strbuf_init(&body, GQL_PROBLEMS_BYTES_MAX);
    strbuf_add_c(&body, "{\"errors\":");
    gql_problems_write(&x->problems, &body);
    strbuf_add_byte(&body, '}');
    finish(x, x->refusal, strbuf_str(&body));
    strbuf_finish(&body);
}

// One that its resolver has written. Empty: null.
static bool write_text(const struct root_field *field, const struct gql_field_def *def, struct strbuf *body)
{
    if (field->text.overflow) body->overflow = true;
    if (field->text.len == 0 && def->type.non_null && !field->text.overflow) return false;
    strbuf_add_json(body, field->collected->key);
    strbuf_add_byte(body, ':');
    if (field->text.len)
        strbuf_add_str(body, strbuf_str(&field->text));
    else
        strbuf_add_c(body, "null");
    return true;
}

// False: `data` is null as a whole.
static bool write_data(struct execution *x, struct strbuf *body)
{
    strbuf_add_byte(body, '{');
    for (size_t i = 0; i < x->field_count; i++) {
        if (i) strbuf_add_byte(body, ',');
        struct gql_collected *collected = x->fields[i].collected;
        const struct gql_field_def *def = gql_schema_field(x->request.schema, x->root, collected->field->name);
        // Its error was noted; a second one for the null would say nothing new.
        if (x->fields[i].failed && def->type.non_null) return false;
        if (x->fields[i].is_written) {
            if (!write_text(&x->fields[i], def, body)) return false;
            continue;
        }
        bool whole = gql_is_introspection(collected->field->name)
                         ? gql_introspect(&x->projection, x->root, collected, body)
                         : gql_project_root(&x->projection, x->root, collected, x->fields[i].value, body);
        if (!whole) return false;
    }
    strbuf_add_byte(body, '}');
    return true;
}

static void answer(struct execution *x)
{
    if (x->is_refused) {
        refuse(x);
        return;
    }
    static const char head[] = "{\"data\":";
    struct strbuf body;
    strbuf_init(&body, x->request.answer_bytes_max);
    strbuf_add_c(&body, head);
    bool whole = write_data(x, &body);
    bool too_large = body.overflow;
    // What follows is bounded by itself, so that an answer is never cut in the middle of its JSON.
    body.max += sizeof head + GQL_PROBLEMS_BYTES_MAX;
    body.overflow = false;
    if (!whole || too_large) {
        strbuf_clear(&body);
        strbuf_add_c(&body, head);
        strbuf_add_c(&body, "null");
    }
    if (too_large) {
        x->problems.count = 0; // the reason that counts, should there be no room for one more
        gql_problem_add(&x->problems, (struct gql_location){0}, "RESPONSE_TOO_LARGE", NULL,
                        "The answer is larger than %zu bytes; request pages (pagination: {first: 100}).",
                        x->request.answer_bytes_max);
    }
    if (x->problems.count) {
        strbuf_add_c(&body, ",\"errors\":");
        gql_problems_write(&x->problems, &body);
    }
    strbuf_add_byte(&body, '}');
    if (x->request.repeatable) *x->request.repeatable = !x->is_unversioned && x->problems.count == 0;
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
    case ERROR_LIMITED: return "TOO_MANY_REQUESTS";
    case ERROR_TIMEOUT: return "TIMEOUT";
    default: return "INTERNAL_SERVER_ERROR";
    }
}

// What is about the client's input is said; what is inside stays in the log.
static const char *text_for_client(const struct gql_collected *field, const struct error *err)
{
    switch (err->code) {
    case ERROR_INVALID:
    case ERROR_TOO_LARGE:
    case ERROR_NOT_FOUND:
    case ERROR_CONFLICT:
    case ERROR_UNAUTHENTICATED:
    case ERROR_LIMITED:
    case ERROR_FORBIDDEN: return err->text;
    default: break;
    }
    log_warn("graphql", "resolver_failed", log_str("field", field->field->name),
             log_c("code", error_code_name(err->code)), log_err(err));
    bool away = err->code == ERROR_UNAVAILABLE || err->code == ERROR_TIMEOUT;
    return away ? "The platform cannot answer right now, try again." : "An internal error; the log has it.";
}

static void note_failure(struct root_field *field, const struct error *err)
{
    struct execution *x = field->execution;
    struct strbuf path;
    strbuf_init(&path, PATH_BYTES_MAX);
    strbuf_add_byte(&path, '[');
    strbuf_add_json(&path, field->collected->key);
    strbuf_add_byte(&path, ']');
    const char *place = path.overflow ? NULL : arena_cstr(x->arena, strbuf_str(&path));
    const char *text = text_for_client(field->collected, err);
    strbuf_finish(&path);
    gql_problem_add(&x->problems, field->collected->field->at, code_of(err->code), place, "%s", text);
    field->failed = true;
    if (field->is_strict && x->field_count == 1 && text == err->text) x->is_refused = true;
}

static void start_fields(struct execution *x);

static void on_resolved(void *arg, const struct error *err, json_t *value)
{
    struct root_field *field = arg;
    struct execution *x = field->execution;
    if (err)
        note_failure(field, err);
    else
        field->value = value;
    x->left--;
    if (!x->starting) start_fields(x);
}

static void on_written(void *arg, const struct error *err, struct strbuf *text)
{
    struct root_field *field = arg;
    if (!err) {
        field->text = *text;
        strbuf_init(text, text->max);
        field->is_written = true;
    }
    on_resolved(field, err, NULL);
}

static void resolve(struct root_field *field, const struct gql_field_def *def, const struct gql_resolver *resolver)
{
    struct execution *x = field->execution;
    if (!resolver->resolve_selected) {
        void (*leave)(void *) = x->request.leave;
        void *leave_arg = x->request.leave_arg;
        if (x->request.enter) x->request.enter(x->request.ctx, resolver);
        resolver->resolve(x->request.ctx, field->arguments, on_resolved, field); // may be the end of x
        if (leave) leave(leave_arg);
        return;
    }
    field->selected = (struct gql_selected){.projection = &x->projection,
                                            .def = def,
                                            .field = field->collected,
                                            .arguments = field->arguments,
                                            .answer_bytes_max = x->request.answer_bytes_max};
    resolver->resolve_selected(x->request.ctx, resolver->with, &field->selected, on_written, field);
}

static void start_field(struct root_field *field)
{
    struct execution *x = field->execution;
    struct str name = field->collected->field->name;
    if (str_eq(name, STR("__typename"))) {
        on_resolved(field, NULL, NULL);
        return;
    }
    const struct gql_field_def *def = gql_schema_field(x->request.schema, x->root, name);
    struct error err;
    field->arguments =
        gql_coerce_arguments(x->request.schema, def, field->collected->field->arguments, x->variables, &err);
    if (!field->arguments) {
        on_resolved(field, &err, NULL);
        return;
    }
    if (gql_is_introspection(name)) { // answered from the schema
        on_resolved(field, NULL, NULL);
        return;
    }
    for (size_t i = 0; i < x->request.resolver_count; i++) {
        const struct gql_resolver *resolver = &x->request.resolvers[i];
        if (resolver->kind != x->operation->kind || !str_eq(str_c(resolver->field), name)) continue;
        if (!resolver->is_versioned) x->is_unversioned = true;
        field->is_strict = resolver->is_strict;
        if (x->request.admit && x->request.admit(x->request.ctx, resolver, &err) != ERROR_NONE) {
            on_resolved(field, &err, NULL);
            return;
        }
        resolve(field, def, resolver);
        return;
    }
    error_set(&err, ERROR_INVALID, "\"%.*s\" is not offered by this platform", STR_ARG(name));
    on_resolved(field, &err, NULL);
}

static void start_fields(struct execution *x)
{
    bool one_by_one = x->operation->kind == GQL_MUTATION;
    x->starting = true;
    while (x->next < x->field_count) {
        size_t unstarted = x->field_count - x->next;
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
    if (x->request.is_mutation) *x->request.is_mutation = x->operation->kind == GQL_MUTATION;
    if (x->operation->kind == GQL_MUTATION && !x->request.mutations_allowed) {
        x->refusal = 405;
        gql_problem_add(&x->problems, x->operation->at, "BAD_REQUEST", NULL, "Mutations are taken with POST only.");
        return false;
    }
    if (x->operation->kind == GQL_SUBSCRIPTION && !x->request.subscriptions_allowed) {
        gql_problem_add(&x->problems, x->operation->at, "BAD_REQUEST", NULL,
                        "Subscriptions are answered as a stream: POST with Accept: text/event-stream.");
        return false;
    }
    x->variables = gql_coerce_variables(x->request.schema, x->operation, x->request.variables, &x->problems);
    return x->variables != NULL;
}

static bool collect(struct execution *x)
{
    x->root = gql_schema_root(x->request.schema, x->operation->kind);
    x->projection = (struct gql_projection){.schema = x->request.schema,
                                            .variables = x->variables,
                                            .problems = &x->problems,
                                            .arena = x->arena,
                                            .selections_left = SELECTIONS_MAX};
    struct gql_collection *collection = gql_collect(&x->projection, x->root, x->operation->selections);
    if (!collection) return false;
    bool is_one = collection->count == 1 && !gql_is_introspection(collection->fields[0].field->name) &&
                  !str_eq(collection->fields[0].field->name, STR("__typename"));
    if (x->operation->kind == GQL_SUBSCRIPTION && !is_one) {
        gql_problem_add(&x->problems, x->operation->at, "GRAPHQL_VALIDATION_FAILED", NULL,
                        "A subscription must select exactly one field, and no introspection.");
        return false;
    }
    x->fields = arena_array(x->arena, collection->count, sizeof *x->fields);
    for (size_t i = 0; i < collection->count; i++)
        x->fields[i] = (struct root_field){.execution = x, .collected = &collection->fields[i]};
    x->field_count = x->left = collection->count;
    return true;
}

void gql_execute(const struct gql_request *request, gql_answered on_answered, void *arg)
{
    struct execution *x = mem_zalloc(sizeof *x);
    x->request = *request;
    x->refusal = 400;
    x->arena = arena_create(ARENA_BYTES_MAX);
    x->request.query = arena_str(x->arena, request->query);
    x->request.operation_name = arena_str(x->arena, request->operation_name);
    x->on_answered = on_answered;
    x->arg = arg;
    gql_problems_init(&x->problems, x->arena);
    if (prepare(x) && collect(x))
        start_fields(x);
    else
        refuse(x);
}
