#include "modules/identity/rule_decisions.h"

#include "api/access/access_object_store.h"
#include "api/access/permission.h"
#include "api/access/rule_set_store.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

enum { OBJECTS_MAX = 500, JSON_BYTES_MAX = 64 * 1024 * 1024, JSON_TOKENS_MAX = 2 * 1000 * 1000 };

// In the request's arena.
struct decisions {
    struct api_pending *pending;
    struct api_principal who;
    struct access_rules *rules; // of who; a reference
    struct access_subject *subjects;
    size_t subject_count;
    enum access_action *actions;
    size_t action_count;
};

static void finish(struct decisions *decisions, const struct error *err, json_t *value)
{
    struct api_pending *pending = decisions->pending;
    access_rules_unref(decisions->rules);
    pending->on_resolved(pending->arg, err, value);
}

static const char *reason_of(const struct decisions *decisions, enum access_action action, const json_t *found,
                             struct access_decision *out)
{
    struct error ignored;
    enum permission needed = action == ACTION_VIEW ? PERMISSION_READ : PERMISSION_WRITE;
    *out = (struct access_decision){.is_allowed = false};
    if (!json_is_object(found)) return "NOT_FOUND";
    struct access_object object = access_object_read(found, decisions->pending->request->arena);
    bool is_visible = access_decide(decisions->rules, ENTITY_GITOPS_APPLICATIONS, ACTION_VIEW, &object).is_allowed;
    bool is_admin = decisions->pending->request->principal.role == PRINCIPAL_ADMIN;
    if (!is_visible && !is_admin) return "NOT_FOUND";
    if (permission_check(&decisions->who, needed, "it", &ignored) != ERROR_NONE) return "ROLE";
    *out = access_decide(decisions->rules, ENTITY_GITOPS_APPLICATIONS, action, &object);
    return access_reason_name(out->reason);
}

static json_t *answer_of(const struct decisions *decisions, const json_t *found)
{
    json_t *answers = json_array();
    for (size_t i = 0; i < decisions->subject_count; i++) {
        const struct access_subject *subject = &decisions->subjects[i];
        for (size_t j = 0; j < decisions->action_count; j++) {
            struct access_decision decision;
            enum access_action action = decisions->actions[j];
            const char *reason = reason_of(decisions, action, json_array_get(found, i), &decision);
            json_array_append_new(
                answers, json_pack("{s:o, s:o, s:o, s:s, s:b, s:s, s:s?}", "runtime", json_new_str(subject->runtime),
                                   "namespace", json_new_str(subject->ns), "name", json_new_str(subject->name),
                                   "action", access_action_name(action), "allowed", (int)decision.is_allowed, "reason",
                                   reason, "rule", decision.rule_id));
        }
    }
    return answers;
}

static void on_objects(void *arg, const struct error *err, struct str node)
{
    struct decisions *decisions = arg;
    const struct json_limits limits = {.bytes_max = JSON_BYTES_MAX, .tokens_max = JSON_TOKENS_MAX};
    struct error bad;
    json_t *found = NULL;
    if (!err && json_decode(node, &limits, &found, &bad) != ERROR_NONE) {
        bad.code = ERROR_INTERNAL;
        err = &bad;
    }
    json_t *answers = err ? NULL : answer_of(decisions, found);
    json_decref(found);
    finish(decisions, err, answers);
}

static void load_objects(struct decisions *decisions)
{
    struct api_request *request = decisions->pending->request;
    access_object_store_get(request->api->options.pg, request->principal.account_id, decisions->subjects,
                            decisions->subject_count, on_objects, decisions);
}

static enum error_code take_objects(const json_t *arguments, struct decisions *out, struct error *err)
{
    const json_t *objects = json_get_array(arguments, "objects"), *actions = json_get_array(arguments, "actions"),
                 *each;
    struct arena *arena = out->pending->request->arena;
    size_t i;
    if (json_array_size(objects) > OBJECTS_MAX || json_array_size(actions) > ACTION_COUNT)
        return error_set(err, ERROR_INVALID, "%zu objects and %zu actions, must be at most %d and %d",
                         json_array_size(objects), json_array_size(actions), OBJECTS_MAX, ACTION_COUNT);
    out->subjects = arena_array(arena, json_array_size(objects) + 1, sizeof *out->subjects);
    out->actions = arena_array(arena, json_array_size(actions) + 1, sizeof *out->actions);
    json_array_foreach(objects, i, each)
    {
        struct str kind = json_get_str(each, "kind");
        out->subjects[out->subject_count++] = (struct access_subject){
            arena_str(arena, json_get_str(each, "runtime")), arena_str(arena, json_get_str(each, "group")),
            kind.len ? arena_str(arena, kind) : STR("Application"), arena_str(arena, json_get_str(each, "namespace")),
            arena_str(arena, json_get_str(each, "name"))};
        const struct access_subject *last = &out->subjects[i];
        if (str_has_byte(last->runtime, '\0') || str_has_byte(last->ns, '\0') || str_has_byte(last->name, '\0') ||
            str_has_byte(last->group, '\0') || str_has_byte(last->kind, '\0'))
            return error_set(err, ERROR_INVALID, "objects[%zu]: a text has a NUL", i);
    }
    json_array_foreach(actions, i, each)
    {
        if (!access_action_named(json_str(each), &out->actions[out->action_count++]))
            return error_set(err, ERROR_INVALID, "actions[%zu]: is no action", i);
    }
    return ERROR_NONE;
}

// NULL: it was answered.
static struct decisions *decisions_create(struct api_request *request, const json_t *arguments,
                                          gql_resolved on_resolved, void *arg)
{
    struct decisions *decisions = arena_alloc(request->arena, sizeof *decisions);
    struct error err;
    decisions->pending = api_pending_create(request, on_resolved, arg);
    if (take_objects(arguments, decisions, &err) == ERROR_NONE) return decisions;
    on_resolved(arg, &err, NULL);
    return NULL;
}

void rules_resolve_permissions(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct decisions *decisions = decisions_create(request, arguments, on_resolved, arg);
    if (!decisions) return;
    decisions->who = request->principal;
    decisions->rules = access_rules_ref(request->rules);
    load_objects(decisions);
}

// ---- of another user ----------------------------------------------------------------------------

static void on_rules(void *arg, const struct error *err, struct access_rules *rules, struct str name)
{
    struct decisions *decisions = arg;
    bool is_limited = !err && name.len && decisions->who.role != PRINCIPAL_ADMIN;
    if (is_limited)
        decisions->rules = rules;
    else
        access_rules_unref(rules);
    if (err)
        finish(decisions, err, NULL);
    else
        load_objects(decisions);
}

static void on_user(void *arg, const struct error *err, struct str role)
{
    struct decisions *decisions = arg;
    struct api_principal *who = &decisions->who;
    struct api_request *request = decisions->pending->request;
    if (err) {
        finish(decisions, err, NULL);
        return;
    }
    who->kind = PRINCIPAL_USER;
    who->role = str_eq(role, STR("\"ADMIN\""))    ? PRINCIPAL_ADMIN
                : str_eq(role, STR("\"MEMBER\"")) ? PRINCIPAL_MEMBER
                                                  : PRINCIPAL_READ_ONLY;
    rule_set_store_load(request->api->options.pg, str_c(request->principal.account_id), str_c(who->user_id), on_rules,
                        decisions);
}

void rules_resolve_explain(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct decisions *decisions = decisions_create(request, arguments, on_resolved, arg);
    if (!decisions) return;
    struct str user_id = json_get_str(arguments, "userId");
    snprintf(decisions->who.user_id, sizeof decisions->who.user_id, "%.*s", STR_ARG(user_id));
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    pg_add(batch, explained_user, .account_id = pg_text(str_c(request->principal.account_id)),
           .user_id = pg_text(user_id));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "userId: the user does not exist", on_user, decisions);
}
