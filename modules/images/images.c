#include <string.h>

#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_reads.h"
#include "modules/images/image_store.h"
#include "modules/images/images.h"
#include "modules/module.h"

// Of one image; the body that carries it is bounded, too.
enum { ID_BYTES_MAX = 512, FIELDS_BYTES_MAX = 256 * 1024 };

static const double number_max = 9007199254740992.0; // 2^53: what JSON readers keep exactly

static enum error_code check_text(struct str text, const char *field, struct error *err)
{
    if (!text.len) return error_set(err, ERROR_INVALID, "%s: must not be empty", field);
    if (text.len > ID_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "%s: %zu bytes, the limit is %d", field, text.len, ID_BYTES_MAX);
    return ERROR_NONE;
}

// NUL is no text for the database, and numbers beyond 2^53 come back from it in another form.
static enum error_code check_values(const json_t *value, const char *field, struct error *err)
{
    struct str text = json_str(value);
    if (text.len && memchr(text.at, '\0', text.len))
        return error_set(err, ERROR_INVALID, "%s: contains a NUL character", field);
    if (json_is_number(value) && !(json_number_value(value) >= 0 && json_number_value(value) <= number_max))
        return error_set(err, ERROR_INVALID, "%s: must be a number from 0 to 2^53", field);
    size_t i;
    const char *key;
    json_t *each;
    enum error_code code = ERROR_NONE;
    json_array_foreach(value, i, each)
    {
        if (code == ERROR_NONE) code = check_values(each, field, err);
    }
    json_object_foreach((json_t *)value, key, each)
    {
        if (code == ERROR_NONE) code = check_values(each, key, err);
    }
    return code;
}

// The input without its nulls and without `key`, as text in the request's arena.
static enum error_code fields_of(struct api_request *request, const json_t *input, const char *key, struct str *out,
                                 struct error *err)
{
    enum error_code code = check_values(input, "the input", err);
    if (code != ERROR_NONE) return code;
    json_t *fields = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)input, name, value)
    {
        if (!json_is_null(value) && (!key || strcmp(name, key) != 0)) json_object_set(fields, name, value);
    }
    size_t len;
    char *text = json_canonical(fields, &len);
    if (len > FIELDS_BYTES_MAX)
        code = error_set(err, ERROR_INVALID, "%zu bytes of JSON, the limit is %d", len, FIELDS_BYTES_MAX);
    else
        *out = arena_str(request->arena, str_of(text, len));
    mem_free(text);
    json_decref(fields);
    return code;
}

static void resolve_create_image_binary(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *input = json_get_object(arguments, "imageBinary");
    struct str id = json_get_str(input, "id"), fields;
    struct error err;
    enum error_code code = check_text(id, "imageBinary.id", &err);
    if (code == ERROR_NONE) code = check_text(json_get_str(input, "imageName"), "imageBinary.imageName", &err);
    if (code == ERROR_NONE) code = fields_of(request, input, "id", &fields, &err);
    if (code == ERROR_NONE)
        image_store_put(request->api->options.pg, request->principal.account_id, api_own_runtime(request), id, fields,
                        api_resolved_node, api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

static void resolve_patch_image_binary(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct str id = json_get_str(arguments, "imageId"), name = json_get_str(arguments, "imageName"), fields;
    struct error err;
    enum error_code code = ERROR_NONE;
    if (id.len || !name.len) code = check_text(id, "imageId", &err);
    if (code == ERROR_NONE && name.len) code = check_text(name, "imageName", &err);
    if (code == ERROR_NONE) code = fields_of(request, json_get_object(arguments, "imagePatch"), NULL, &fields, &err);
    if (code == ERROR_NONE)
        image_store_patch(request->api->options.pg, request->principal.account_id, api_own_runtime(request), id, name,
                          fields, api_resolved_node, api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

static enum error_code array_of(struct api_request *request, const json_t *input, const char *key, struct str *out,
                                struct error *err)
{
    const json_t *list = json_get_array(input, key);
    *out = STR_EMPTY;
    if (!list) return ERROR_NONE;
    enum error_code code = check_values(list, key, err);
    if (code != ERROR_NONE) return code;
    size_t len;
    char *text = json_canonical(list, &len);
    if (len > FIELDS_BYTES_MAX)
        code = error_set(err, ERROR_INVALID, "%s: %zu bytes of JSON, the limit is %d", key, len, FIELDS_BYTES_MAX);
    else
        *out = arena_str(request->arena, str_of(text, len));
    mem_free(text);
    return code;
}

static void resolve_create_image_layers(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *input = json_get_object(arguments, "imageLayers");
    struct str image = json_get_str(input, "image"), digests, layers;
    struct error err;
    enum error_code code = check_text(image, "imageLayers.image", &err);
    if (code == ERROR_NONE) code = array_of(request, input, "layerDigests", &digests, &err);
    if (code == ERROR_NONE) code = array_of(request, input, "layers", &layers, &err);
    if (code == ERROR_NONE)
        image_store_put_layers(request->api->options.pg, request->principal.account_id, api_own_runtime(request), image,
                               digests, layers, api_resolved_node, api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

static void resolve_create_image_registry(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *input = json_get_object(arguments, "imageRegistry");
    struct str id = json_get_str(input, "binaryId"), fields;
    struct error err;
    enum error_code code = check_text(id, "imageRegistry.binaryId", &err);
    if (code == ERROR_NONE) code = check_text(json_get_str(input, "imageName"), "imageRegistry.imageName", &err);
    if (code == ERROR_NONE) code = fields_of(request, input, "binaryId", &fields, &err);
    if (code == ERROR_NONE)
        image_store_put_registry(request->api->options.pg, request->principal.account_id, api_own_runtime(request), id,
                                 fields, api_resolved_node, api_pending_create(request, on_resolved, arg));
    else
        on_resolved(arg, &err, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_MUTATION, "createImageBinary", resolve_create_image_binary, .access = API_RUNTIMES_TOO},
    {GQL_MUTATION, "createImageLayers", resolve_create_image_layers, .access = API_RUNTIMES_TOO},
    {GQL_MUTATION, "createImageRegistry", resolve_create_image_registry, .access = API_RUNTIMES_TOO},
    {GQL_MUTATION, "patchImageBinary", resolve_patch_image_binary, .access = API_RUNTIMES_TOO},
};

static const struct report_beside report_besides[] = {
    {.plan_row = report_image_plan},
};

const struct module module_images = {
    .name = "images",
    MODULE_LIST(resolvers, resolvers),
    .declared = declared_images,
    .declared_count = declared_images_count,
    MODULE_LIST(report_besides, report_besides),
};
