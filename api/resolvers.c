#include "api/resolvers.h"

#include <assert.h>

#include "api/access/access_fields.h"
#include "api/access/permission.h"
#include "base/mem.h"

enum error_code api_admit(void *ctx, const struct gql_resolver *resolver, struct error *err)
{
    const struct api_request *request = ctx;
    assert(resolver->access >= API_USERS && resolver->access <= API_OWN);
    if (request->principal.kind == PRINCIPAL_RUNTIME && resolver->access != API_RUNTIMES_TOO)
        return error_set(err, ERROR_FORBIDDEN,
                         "%s requires a user of the account; a runtime token does not have the permission",
                         resolver->field);
    enum permission needed = resolver->access == API_ADMINS   ? PERMISSION_ADMINISTER
                             : resolver->access == API_OWN    ? PERMISSION_OWN
                             : resolver->kind == GQL_MUTATION ? PERMISSION_WRITE
                                                              : PERMISSION_READ;
    enum error_code code = permission_check(&request->principal, needed, resolver->field, err);
    if (code != ERROR_NONE || resolver->resolve_selected) return code; // which filters by row
    return access_field_check(resolver->field, request->rules, err);
}

bool api_sees_runtime(const struct api_request *request, struct str runtime)
{
    return request->principal.kind != PRINCIPAL_RUNTIME || str_eq(str_c(request->principal.runtime), runtime);
}

struct str api_own_runtime(const struct api_request *request)
{
    return request->principal.kind == PRINCIPAL_RUNTIME ? str_c(request->principal.runtime) : STR_EMPTY;
}

enum { SLICE_BYTES_MAX = 128 * 1024 * 1024, PAGE_SKIP_MAX = 500 };

// What the database says of one entity is ours, so its bounds are those of the database: two manifests of 10 MiB.
static const struct json_limits entity_limits = {
    .bytes_max = 48u * 1024 * 1024,
    .depth_max = 64,
    .tokens_max = 4u * 1000 * 1000,
};

struct api_pending *api_pending_create(struct api_request *request, gql_resolved on_resolved, void *arg)
{
    struct api_pending *pending = arena_alloc(request->arena, sizeof *pending);
    assert(on_resolved);
    *pending = (struct api_pending){.request = request, .on_resolved = on_resolved, .arg = arg};
    return pending;
}

const struct error *api_decode_node(const struct error *err, struct str node, json_t **out, struct error *memory)
{
    *out = NULL;
    if (err || node.len == 0 || json_decode(node, &entity_limits, out, memory) == ERROR_NONE) return err;
    assert(!*out);
    memory->code = ERROR_INTERNAL; // ours, not the caller's
    return memory;
}

void api_resolved_node(void *arg, const struct error *err, struct str node)
{
    struct api_pending *pending = arg;
    struct error bad;
    json_t *value;
    err = api_decode_node(err, node, &value, &bad);
    pending->on_resolved(pending->arg, err, value);
}

// A decoded slice stays in memory until it is answered, so its entities are bounded together, too.
static enum error_code check_slice(const struct store_slice *slice, struct error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < slice->count; i++)
        bytes += slice->nodes[i].len;
    if (bytes <= SLICE_BYTES_MAX) return ERROR_NONE;
    return error_set(err, ERROR_TOO_LARGE,
                     "%zu entities of %zu MiB are too large for one answer; request pages (pagination: {first: 100})",
                     slice->count, bytes / (1024 * 1024));
}

static json_t *slice_of(const struct store_slice *slice, struct error *err)
{
    if (check_slice(slice, err) != ERROR_NONE) return NULL;
    json_t *edges = json_array();
    for (size_t i = 0; i < slice->count; i++) {
        json_t *node;
        if (json_decode(slice->nodes[i], &entity_limits, &node, err) != ERROR_NONE) {
            json_decref(edges);
            err->code = ERROR_INTERNAL;
            return NULL;
        }
        json_array_append_new(edges, json_pack("{s:o, s:o}", "node", node, "cursor", json_new_str(slice->cursors[i])));
    }
    json_t *info = json_pack("{s:b, s:b}", "hasNextPage", slice->has_next, "hasPrevPage", slice->has_prev);
    if (slice->count) {
        json_object_set_new(info, "startCursor", json_new_str(slice->cursors[0]));
        json_object_set_new(info, "endCursor", json_new_str(slice->cursors[slice->count - 1]));
    }
    return json_pack("{s:o, s:o}", "edges", edges, "pageInfo", info);
}

void api_resolved_slice(void *arg, const struct error *err, const struct store_slice *slice)
{
    struct api_pending *pending = arg;
    struct error bad;
    json_t *value = err ? NULL : slice_of(slice, &bad);
    if (!err && !value) err = &bad;
    pending->on_resolved(pending->arg, err, value);
}

enum error_code api_page_of(const json_t *arguments, struct store_page *out, struct error *err)
{
    const json_t *page = json_get_object(arguments, "pagination");
    *out = (struct store_page){.after = json_get_str(page, "after"), .before = json_get_str(page, "before")};
    static const char *const names[] = {"first", "last"};
    for (int i = 0; i < 2; i++) {
        const json_t *number = json_object_get(page, names[i]);
        if (!json_is_integer(number)) continue;
        json_int_t value = json_integer_value(number);
        if (value < 1 || value > STORE_PAGE_MAX)
            return error_set(err, ERROR_INVALID, "pagination.%s must be between 1 and %d", names[i], STORE_PAGE_MAX);
        *(i == 0 ? &out->first : &out->last) = (unsigned)value;
    }
    if (out->first && out->last) return error_set(err, ERROR_INVALID, "pagination accepts first or last, not both");
    int64_t skip = json_get_int(page, "skip", 0);
    if (skip < 0 || skip > PAGE_SKIP_MAX)
        return error_set(err, ERROR_INVALID, "pagination.skip must be between 0 and %d", PAGE_SKIP_MAX);
    out->skip = (unsigned)skip;
    return ERROR_NONE;
}

json_t *api_empty_slice(void)
{
    return json_pack("{s:[], s:{s:b, s:b}}", "edges", "pageInfo", "hasNextPage", 0, "hasPrevPage", 0);
}

bool api_page_or_answer(const json_t *arguments, struct store_page *out, gql_resolved on_resolved, void *arg)
{
    struct error err;
    if (api_page_of(arguments, out, &err) == ERROR_NONE && !out->skip) return true;
    if (out->skip) error_set(&err, ERROR_INVALID, "pagination.skip: this list does not take it");
    on_resolved(arg, &err, NULL);
    return false;
}
