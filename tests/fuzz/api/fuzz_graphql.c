// Any text as a GraphQL document: parse, validate against the product's schema, coerce variables, execute with entities
// made up from the schema itself. The answer must be JSON, and nothing may take long.
#include <stdint.h>
#include <stdlib.h>

#include "api/graphql/execution.h"
#include "base/mem.h"
#include "modules/schema_sdl.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static struct gql_schema *the_schema(void)
{
    static struct gql_schema *schema; // one for all inputs; the process's end frees it
    if (!schema) schema = gql_schema_create(str_of(schema_sdl, schema_sdl_bytes), NULL);
    if (!schema) abort();
    return schema;
}

static json_t *entity_of(const struct gql_type_ref *ref, unsigned depth, unsigned seed);

static json_t *object_of(const struct gql_type *type, unsigned depth, unsigned seed)
{
    json_t *object = json_object();
    static const char *const errors[] = {"SyncError", "HealthError", "Runtime", "nothing"};
    if (type->kind == GQL_INTERFACE) {
        const char *name = errors[seed % 4];
        json_object_set_new(object, "__typename", json_string(name));
        const struct gql_type *concrete = gql_schema_type(the_schema(), str_c(name));
        if (concrete) type = concrete;
    }
    for (const struct gql_field_def *field = type->fields; field; field = field->next) {
        seed = seed * 1103515245 + 12345;
        json_t *value = entity_of(&field->type, depth + 1, seed >> 8);
        if (value) json_object_setn_new(object, field->name.at, field->name.len, value);
    }
    return object;
}

// Mostly what the type says, sometimes nothing, null or nonsense.
static json_t *entity_of(const struct gql_type_ref *ref, unsigned depth, unsigned seed)
{
    if (seed % 61 == 0) return json_null();
    if (seed % 67 == 0) return json_integer(5000000000);
    if (depth > 4) return NULL;
    if (ref->item) {
        json_t *list = json_array();
        for (unsigned i = 0; i < seed % 4; i++) {
            json_t *item = entity_of(ref->item, depth + 1, seed * 7 + i);
            json_array_append_new(list, item ? item : json_null());
        }
        return list;
    }
    const struct gql_type *type = gql_schema_type(the_schema(), ref->name);
    if (type->kind == GQL_ENUM) return json_new_str(type->names->name);
    if (type->kind != GQL_SCALAR) return object_of(type, depth, seed);
    if (str_eq(type->name, STR("Int"))) return json_integer(seed);
    if (str_eq(type->name, STR("Boolean"))) return json_boolean(seed & 1);
    return json_string("text \" \\ \xc3\xa9");
}

struct one_run {
    int answers;
    unsigned seed;
};

static void answer_field(void *ctx, const char *type_name, gql_resolved on_resolved, void *arg)
{
    struct one_run *run = ctx;
    struct error err;
    if (++run->seed % 16 == 0) {
        error_set(&err, ERROR_NOT_FOUND, "not there");
        on_resolved(arg, &err, NULL);
        return;
    }
    const struct gql_type_ref ref = {.name = str_c(type_name)};
    on_resolved(arg, NULL, entity_of(&ref, 0, run->seed * 31 + 1));
}

#define RESOLVER(name, type)                                                                                           \
    static void resolve_##name(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)                \
    {                                                                                                                  \
        if (!json_is_object(arguments)) abort();                                                                       \
        answer_field(ctx, type, on_resolved, arg);                                                                     \
    }
RESOLVER(me, "User")
RESOLVER(runtime, "Runtime")
RESOLVER(runtimes, "RuntimeSlice")
RESOLVER(clusters, "ClusterSlice")
RESOLVER(applications, "ApplicationSlice")
RESOLVER(application, "Application")
RESOLVER(create, "RuntimeCreationResponse")
RESOLVER(delete, "Int")

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "me", resolve_me, .access = 1},
    {GQL_QUERY, "runtime", resolve_runtime, .access = 1},
    {GQL_QUERY, "runtimes", resolve_runtimes, .access = 1},
    {GQL_QUERY, "clusters", resolve_clusters, .access = 1},
    {GQL_QUERY, "applications", resolve_applications, .access = 1},
    {GQL_QUERY, "application", resolve_application, .access = 1},
    {GQL_MUTATION, "createRuntime", resolve_create, .access = 1},
    {GQL_MUTATION, "deleteRuntime", resolve_delete, .access = 1},
};

static void on_answered(void *arg, int status, struct str body)
{
    struct one_run *run = arg;
    run->answers++;
    json_t *answer = json_loadb(body.at, body.len, 0, NULL);
    if (!answer) abort();
    const json_t *errors = json_object_get(answer, "errors");
    if (errors && json_array_size(errors) == 0) abort();
    if (status != 200 && status != 400) abort();
    if ((status == 400) != !json_object_get(answer, "data")) abort();
    json_decref(answer);
}

// Values for variables of the names that the corpus uses; what does not fit is refused, which is a path, too.
static const char variables_text[] =
    "{\"name\":\"prod\",\"runtime\":\"prod\",\"a\":1,\"b\":true,\"c\":null,\"d\":[1,2.0,\"x\"],\"pagination\":{"
    "\"first\":10,"
    "\"after\":\"\"},\"filters\":{\"runtime\":\"\",\"statuses\":[\"SYNCED\"],\"favorite\":false},\"installationArgs\":"
    "{\"runtimeName\":\"prod\",\"cluster\":\"c\",\"runtimeVersion\":\"1\",\"componentNames\":[]}}";

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static const struct gql_limits limits = {
        .tokens_max = 1000, .depth_max = 12, .aliases_max = 30, .directives_max = 50, .root_fields_max = 20};
    if (len > 65536) return 0;
    json_t *variables = json_loads(variables_text, 0, NULL);
    struct one_run run = {.seed = len ? at[0] : 0};
    const struct gql_request request = {
        .query = str_of((const char *)at, len),
        .variables = variables,
        .schema = the_schema(),
        .resolvers = resolvers,
        .resolver_count = sizeof resolvers / sizeof *resolvers,
        .limits = &limits,
        .answer_bytes_max = len % 7 ? 1024 * 1024 : 200,
        .mutations_allowed = true,
        .ctx = &run,
    };
    gql_execute(&request, on_answered, &run);
    if (run.answers != 1) abort();
    json_decref(variables);
    return 0;
}
