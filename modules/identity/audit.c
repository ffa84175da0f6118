#include "modules/identity/audit.h"

#include <stdio.h>

#include "api/access/audit_store.h"
#include "api/resolvers.h"
#include "base/clock.h"

enum { FIRST_DEFAULT = 100, NUMBER_BYTES = 24 };

// As PostgreSQL reads it; empty: none.
static enum error_code take_time(const json_t *filters, const char *name, char out[CLOCK_RFC3339_BYTES],
                                 struct error *err)
{
    int64_t wall_ms;
    struct str text = json_get_str(filters, name);
    out[0] = '\0';
    if (!text.len) return ERROR_NONE;
    if (clock_parse_rfc3339(text, &wall_ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID,
                         "filters.%s: must be a time as in RFC 3339, for example 2026-01-31T10:00:00Z", name);
    clock_format_rfc3339(wall_ms, out);
    return ERROR_NONE;
}

void audit_resolve_entries(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    const json_t *filters = json_get_object(arguments, "filters"), *first = json_object_get(arguments, "first"),
                 *before = json_object_get(arguments, "before");
    json_int_t count = json_is_integer(first) ? json_integer_value(first) : FIRST_DEFAULT;
    struct error err;
    if (count < 1 || count > AUDIT_PAGE_MAX) {
        error_set(&err, ERROR_INVALID, "first: must be between 1 and %d", AUDIT_PAGE_MAX);
        on_resolved(arg, &err, NULL);
        return;
    }
    char since[CLOCK_RFC3339_BYTES], until[CLOCK_RFC3339_BYTES];
    if (take_time(filters, "since", since, &err) != ERROR_NONE ||
        take_time(filters, "until", until, &err) != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    char number[NUMBER_BYTES] = "";
    if (json_is_integer(before)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(before));
    const struct audit_filter filter = {.before = str_c(number),
                                        .entity = json_get_str(filters, "entity"),
                                        .entity_id = json_get_str(filters, "entityId"),
                                        .action = json_get_str(filters, "action"),
                                        .actor_id = json_get_str(filters, "actorId"),
                                        .since = str_c(since),
                                        .until = str_c(until),
                                        .limit = (unsigned)count};
    audit_store_list(request->api->options.pg, request->principal.account_id, &filter, api_resolved_node,
                     api_pending_create(request, on_resolved, arg));
}
