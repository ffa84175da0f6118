#include "api/object_access.h"

enum { JSON_BYTES_MAX = 4 * 1024 * 1024 };

// In the request's arena.
struct check {
    struct api_request *request;
    enum access_action action;
    object_checked on_checked;
    void *arg;
};

static enum error_code decide(const struct check *check, const json_t *found, struct error *err)
{
    struct access_rules *rules = check->request->rules;
    if (!json_is_object(found)) return error_set(err, ERROR_NOT_FOUND, "the runtime has no such application");
    struct access_object object = access_object_read(found, check->request->arena);
    if (!access_decide(rules, ENTITY_GITOPS_APPLICATIONS, ACTION_VIEW, &object).is_allowed)
        return error_set(err, ERROR_NOT_FOUND, "the runtime has no such application");
    struct access_decision decision = access_decide(rules, ENTITY_GITOPS_APPLICATIONS, check->action, &object);
    if (decision.is_allowed) return ERROR_NONE;
    return error_set(err, ERROR_FORBIDDEN, "%s of this application is denied to you by %s %s",
                     access_action_name(check->action), decision.rule_id ? "the rule" : "the default of the account",
                     decision.rule_id ? decision.rule_id : "");
}

static void on_object(void *arg, const struct error *err, struct str node)
{
    struct check *check = arg;
    const struct json_limits limits = {.bytes_max = JSON_BYTES_MAX};
    struct error bad;
    json_t *list = NULL;
    if (!err && json_decode(node, &limits, &list, &bad) != ERROR_NONE) {
        bad.code = ERROR_INTERNAL;
        err = &bad;
    }
    if (!err && decide(check, json_array_get(list, 0), &bad) != ERROR_NONE) err = &bad;
    json_decref(list);
    check->on_checked(check->arg, err);
}

void object_access_check(struct api_request *request, const struct access_subject *subject, enum access_action action,
                         object_checked on_checked, void *arg)
{
    if (access_allows_all(request->rules, ENTITY_GITOPS_APPLICATIONS, ACTION_VIEW) &&
        access_allows_all(request->rules, ENTITY_GITOPS_APPLICATIONS, action)) {
        on_checked(arg, NULL);
        return;
    }
    struct check *check = arena_alloc(request->arena, sizeof *check);
    *check = (struct check){request, action, on_checked, arg};
    access_object_store_get(request->api->options.pg, request->principal.account_id, subject, 1, on_object, check);
}
