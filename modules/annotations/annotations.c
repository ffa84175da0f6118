#include <string.h>

#include "api/resolvers.h"
#include "base/mem.h"
#include "modules/annotations/annotation_store.h"
#include "modules/module.h"

enum { KEY_BYTES_MAX = 512, VALUE_BYTES_MAX = 64 * 1024 };

static void on_put(void *arg, const struct error *err, uint64_t count)
{
    struct api_pending *pending = arg;
    struct error foreign;
    if (!err && count == 0) {
        error_set(&foreign, ERROR_FORBIDDEN, "only the runtime or user that created this annotation can change it");
        err = &foreign;
    }
    pending->on_resolved(pending->arg, err, err ? NULL : json_true());
}

static enum error_code take_text(const json_t *input, const char *name, struct str *out, struct error *err)
{
    *out = json_get_str(input, name);
    if (!out->len) return error_set(err, ERROR_INVALID, "annotation.%s: must not be empty", name);
    if (out->len > KEY_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "annotation.%s: %zu bytes, the limit is %d", name, out->len,
                         KEY_BYTES_MAX);
    return ERROR_NONE;
}

// Canonical JSON in the request's arena.
static enum error_code take_json(struct api_request *request, const json_t *value, const char *name, size_t bytes_max,
                                 struct str *out, struct error *err)
{
    size_t len;
    char *text = json_canonical(value, &len);
    enum error_code code = ERROR_NONE;
    if (len > bytes_max)
        code = error_set(err, ERROR_INVALID, "annotation.%s: %zu bytes, the limit is %zu", name, len, bytes_max);
    else if (memmem(text, len, "\\u0000", 6))
        code = error_set(err, ERROR_INVALID, "annotation.%s: contains a NUL character", name);
    else
        *out = arena_str(request->arena, str_of(text, len));
    mem_free(text);
    return code;
}

// A thing is named by an id, or as Kubernetes names its objects.
static enum error_code take_entity(struct api_request *request, const json_t *input, struct str *out, struct error *err)
{
    const json_t *object = json_get_object(input, "k8sEntityId"), *logic = json_get_object(input, "logicEntityId");
    if (!object == !logic)
        return error_set(err, ERROR_INVALID, "annotation: one of k8sEntityId and logicEntityId must be given");
    const json_t *runtime = json_object_get(object, "runtime");
    if (json_str(runtime).len && !api_sees_runtime(request, json_str(runtime)))
        return error_set(err, ERROR_FORBIDDEN, "annotation.k8sEntityId.runtime: must be the runtime of the token");
    if (object) return take_json(request, object, "k8sEntityId", 4 * KEY_BYTES_MAX, out, err);
    return take_text(logic, "id", out, err);
}

static enum error_code take_value(struct api_request *request, const json_t *input, struct str *out, struct error *err)
{
    static const char *const names[] = {"issueValue", "pullRequestValue", "genericValue"};
    const json_t *found = NULL;
    const char *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(input, names[i]);
        if (!value || json_is_null(value)) continue;
        if (found) return error_set(err, ERROR_INVALID, "annotation: %s and %s must not both be given", name, names[i]);
        found = value;
        name = names[i];
    }
    if (!found)
        return error_set(err, ERROR_INVALID,
                         "annotation: one of issueValue, pullRequestValue and genericValue must be given");
    // A text on its own is no document; it stands under its name like the others.
    json_t *value = json_object();
    json_object_set(value, name, (json_t *)found);
    enum error_code code = take_json(request, value, name, VALUE_BYTES_MAX, out, err);
    json_decref(value);
    return code;
}

static void resolve_save_annotation(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *input = json_get_object(arguments, "annotation");
    struct annotation annotation = {.runtime = api_own_runtime(request),
                                    .classic_id = str_first(json_get_str(input, "classicId"), KEY_BYTES_MAX)};
    struct error err;
    enum error_code code = take_text(input, "entityType", &annotation.entity_type, &err);
    if (code == ERROR_NONE) code = take_text(input, "type", &annotation.type, &err);
    if (code == ERROR_NONE) code = take_text(input, "key", &annotation.key, &err);
    if (code == ERROR_NONE) code = take_entity(request, input, &annotation.entity_id, &err);
    if (code == ERROR_NONE) code = take_value(request, input, &annotation.value, &err);
    if (code == ERROR_NONE)
        annotation_store_put(request->api->options.pg, request->principal.account_id, &annotation, on_put,
                             api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_MUTATION, "saveAnnotation", resolve_save_annotation, .access = API_RUNTIMES_TOO},
};

const struct module module_annotations = {
    .name = "annotations",
    MODULE_LIST(resolvers, resolvers),
};
