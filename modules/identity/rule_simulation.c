#include "modules/identity/rule_simulation.h"

#include "api/access/access_object_store.h"
#include "api/access/access_settings.h"
#include "api/resolvers.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "culvert_statements.h"
#include "modules/identity/rule_input.h"
#include "modules/identity/rules.h"
#include "storage/sql/store_call.h"

enum {
    GROUPS_MAX = 50,       // of users who are in the same teams
    DIFFERENCES_MAX = 500, // that are listed at once
    DIFFERENCES_DEF = 50,
    PAGE_MAX = 500,        // applications that are decided in one turn of the loop
    PAGE_DECISIONS = 1000, // and with many groups fewer, but PAGE_MIN
    PAGE_MIN = 20,
    JSON_BYTES_MAX = 64 * 1024 * 1024,
    JSON_TOKENS_MAX = 2 * 1000 * 1000,
};

static const struct json_limits limits = {.bytes_max = JSON_BYTES_MAX, .tokens_max = JSON_TOKENS_MAX};

// The changed rule alone, as it was or will be: other rules decide alike before and after, so only
// the applications that it applies to are compared.
struct changed_rule {
    struct access_rules *rules; // NULL: no such rule
    enum access_action action;  // one of its own
};

// Users to whom the same rules apply.
struct group {
    json_t *subject; // a SimulatedSubject
    struct access_rules *before, *after;
    bool is_read_only;
    json_int_t user_count, gained, lost;
};

// In the request's arena.
struct simulation {
    struct api_pending *pending;
    struct rule_input input; // of create and update
    const json_t *rule;      // the same; NULL: the rule is removed, or the default is changed
    struct str rule_id, user_id, team_id;
    bool is_default, is_default_allow; // the default is changed; to what
    json_int_t first, skip;
    struct changed_rule changed[2];
    struct group *groups;
    size_t group_count;
    struct arena *page_arena;
    struct str runtime, ns, name; // of the last application
    json_t *differences;
    json_int_t total, examined, gained, lost;
    bool is_complete;
};

static void count(const char *result)
{
    struct metric_family *family =
        metrics_counter("culvert_access_simulations_total", "Simulated changes of rules.", "result", NULL);
    metric_add(metric_with(family, result), 1);
}

static void finish(struct simulation *simulation, const struct error *err, json_t *value)
{
    struct api_pending *pending = simulation->pending;
    for (size_t i = 0; i < simulation->group_count; i++) {
        json_decref(simulation->groups[i].subject);
        access_rules_unref(simulation->groups[i].before);
        access_rules_unref(simulation->groups[i].after);
    }
    for (size_t i = 0; i < 2; i++)
        access_rules_unref(simulation->changed[i].rules);
    arena_destroy(simulation->page_arena);
    json_decref(simulation->differences);
    count(err ? "error" : simulation->is_complete ? "complete" : "incomplete");
    pending->on_resolved(pending->arg, err, value);
}

static void answer(struct simulation *simulation)
{
    json_t *subjects = json_array();
    for (size_t i = 0; i < simulation->group_count; i++) {
        struct group *group = &simulation->groups[i];
        if (!group->gained && !group->lost) continue;
        json_object_set_new(group->subject, "gained", json_integer(group->gained * group->user_count));
        json_object_set_new(group->subject, "lost", json_integer(group->lost * group->user_count));
        simulation->gained += group->gained * group->user_count;
        simulation->lost += group->lost * group->user_count;
        json_array_append(subjects, group->subject);
    }
    json_t *value =
        json_pack("{s:I, s:I, s:I, s:b, s:o, s:I, s:O}", "gained", simulation->gained, "lost", simulation->lost,
                  "examined", simulation->examined, "isComplete", (int)simulation->is_complete, "subjects", subjects,
                  "total", simulation->total, "differences", simulation->differences);
    finish(simulation, NULL, value);
}

// ---- comparison ---------------------------------------------------------------------------------

static bool allows(struct access_rules *rules, enum access_action action, const struct access_object *object)
{
    return access_decide(rules, ENTITY_GITOPS_APPLICATIONS, action, object).is_allowed;
}

// Bit i: access_action i. Who may not see an application may do nothing with it, and who only reads
// may do nothing else.
static uint32_t permitted(struct access_rules *rules, bool is_read_only, const struct access_object *object)
{
    uint32_t actions = 0;
    if (!allows(rules, ACTION_VIEW, object)) return 0;
    if (is_read_only) return 1u << ACTION_VIEW;
    for (unsigned i = 0; i < ACTION_COUNT; i++)
        if (allows(rules, (enum access_action)i, object)) actions |= 1u << i;
    return actions;
}

static bool is_about(const struct simulation *simulation, const struct access_object *object)
{
    if (simulation->is_default) return true;
    for (size_t i = 0; i < 2; i++) {
        const struct changed_rule *changed = &simulation->changed[i];
        if (changed->rules &&
            access_decide(changed->rules, ENTITY_GITOPS_APPLICATIONS, changed->action, object).rule_id)
            return true;
    }
    return false;
}

static json_t *action_names(uint32_t actions)
{
    json_t *names = json_array();
    for (unsigned i = 0; i < ACTION_COUNT; i++)
        if (actions & 1u << i) json_array_append_new(names, json_string(access_action_name((enum access_action)i)));
    return names;
}

static void add_difference(struct simulation *simulation, struct group *group, const json_t *application,
                           uint32_t gained, uint32_t lost)
{
    if (!gained && !lost) return;
    if (gained) group->gained++;
    if (lost) group->lost++;
    if (simulation->total++ < simulation->skip) return;
    if ((json_int_t)json_array_size(simulation->differences) >= simulation->first) return;
    json_array_append_new(
        simulation->differences,
        json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:o, s:o}", "users", json_object_get(group->subject, "users"),
                  "userCount", json_object_get(group->subject, "userCount"), "teams",
                  json_object_get(group->subject, "teams"), "runtime", json_object_get(application, "runtime"),
                  "namespace", json_object_get(application, "namespace"), "name", json_object_get(application, "name"),
                  "gained", action_names(gained), "lost", action_names(lost)));
}

static void compare(struct simulation *simulation, const json_t *application)
{
    struct access_object object = access_object_read(json_get_object(application, "object"), simulation->page_arena);
    if (!is_about(simulation, &object)) return;
    for (size_t i = 0; i < simulation->group_count; i++) {
        struct group *group = &simulation->groups[i];
        uint32_t before = permitted(group->before, group->is_read_only, &object);
        uint32_t after = permitted(group->after, group->is_read_only, &object);
        add_difference(simulation, group, application, after & ~before, before & ~after);
    }
}

// ---- applications, page by page -----------------------------------------------------------------

static void read_page(struct simulation *simulation);

static size_t page_size(const struct simulation *simulation)
{
    size_t size = PAGE_DECISIONS / simulation->group_count;
    return size > PAGE_MAX ? PAGE_MAX : size < PAGE_MIN ? PAGE_MIN : size;
}

static void on_page(void *arg, const struct error *err, struct str node)
{
    struct simulation *simulation = arg;
    struct api_request *request = simulation->pending->request;
    const struct access_settings *settings = access_settings_of(request->api->options.config);
    json_t *page = NULL;
    const json_t *last;
    struct error bad;
    size_t i;
    if (!err && json_decode(node, &limits, &page, &bad) != ERROR_NONE) {
        bad.code = ERROR_INTERNAL;
        err = &bad;
    }
    if (err) {
        finish(simulation, err, NULL);
        return;
    }
    for (i = 0; i < json_array_size(page) && simulation->examined < settings->simulated_applications_max; i++) {
        compare(simulation, json_array_get(page, i));
        simulation->examined++;
    }
    arena_reset(simulation->page_arena);
    simulation->is_complete = i == json_array_size(page) && i < page_size(simulation);
    bool has_more = i == page_size(simulation);
    last = has_more ? json_array_get(page, i - 1) : NULL;
    if (last) {
        simulation->runtime = arena_str(request->arena, json_get_str(last, "runtime"));
        simulation->ns = arena_str(request->arena, json_get_str(last, "namespace"));
        simulation->name = arena_str(request->arena, json_get_str(last, "name"));
    }
    json_decref(page);
    if (has_more)
        read_page(simulation);
    else
        answer(simulation);
}

static void read_page(struct simulation *simulation)
{
    struct api_request *request = simulation->pending->request;
    char page[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    pg_add(batch, simulation_applications, .account_id = pg_text(str_c(request->principal.account_id)),
           .runtime = pg_text(simulation->runtime), .namespace = pg_text(simulation->ns),
           .name = pg_text(simulation->name), .page = store_number(page_size(simulation), page));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_page, simulation);
}

// ---- what it begins with ------------------------------------------------------------------------

static enum error_code rules_of_list(bool is_default_allow, const json_t *list, struct access_rules **out,
                                     struct error *err)
{
    size_t len;
    char *text = json_canonical(list, &len);
    enum error_code code = access_rules_create(is_default_allow, str_of(text, len), out, err);
    mem_free(text);
    return code;
}

static enum error_code take_changed(struct simulation *simulation, size_t i, const json_t *rule, struct error *err)
{
    struct changed_rule *changed = &simulation->changed[i];
    struct access_rule parsed;
    enum error_code code = access_rule_parse(rule, simulation->pending->request->arena, &parsed, err);
    if (code != ERROR_NONE) return code;
    changed->action = (enum access_action)__builtin_ctz(parsed.actions);
    json_t *list = json_pack("[O]", rule);
    code = rules_of_list(false, list, &changed->rules, err);
    json_decref(list);
    return code;
}

// Its rules, now and then: those that apply, of all by their ids.
static enum error_code take_group(struct simulation *simulation, json_t *row, const json_t *rules, bool is_allow,
                                  struct error *err)
{
    struct group *group = &simulation->groups[simulation->group_count++];
    json_t *before = json_array(), *after = json_array();
    const json_t *id;
    size_t i;
    group->subject = json_incref(row);
    group->is_read_only = json_get_bool(row, "isReadOnly", false);
    group->user_count = json_get_int(row, "userCount", 0);
    json_array_foreach(json_get_array(row, "rules"), i, id)
    {
        json_t *rule = json_object_get(rules, json_string_value(id));
        json_array_append(before, rule);
        if (simulation->is_default || !str_eq(json_str(id), simulation->rule_id)) json_array_append(after, rule);
    }
    if (json_get_bool(row, "isNew", false)) json_array_append(after, (json_t *)simulation->rule);
    enum error_code code = rules_of_list(is_allow, before, &group->before, err);
    bool is_allow_then = simulation->is_default ? simulation->is_default_allow : is_allow;
    if (code == ERROR_NONE) code = rules_of_list(is_allow_then, after, &group->after, err);
    json_decref(before);
    json_decref(after);
    return code;
}

static enum error_code check_groups(const struct simulation *simulation, const json_t *groups, struct error *err)
{
    const struct access_settings *settings = access_settings_of(simulation->pending->request->api->options.config);
    json_int_t combinations = 0;
    const json_t *each;
    size_t i;
    json_array_foreach(groups, i, each) combinations += json_get_int(each, "combinations", 0);
    if (json_array_size(groups) > GROUPS_MAX)
        return error_set(err, ERROR_LIMITED,
                         "the change is about users in more than %d different sets of teams; name a user or a team as "
                         "the subject",
                         GROUPS_MAX);
    if (combinations > settings->rule_values_max)
        return error_set(err, ERROR_LIMITED,
                         "the rules of the users whom the change is about name %lld combinations of attributes, of at "
                         "most %lld (access.rule_values_max); name a user or a team as the subject",
                         (long long)combinations, (long long)settings->rule_values_max);
    return ERROR_NONE;
}

static enum error_code take_groups(struct simulation *simulation, bool is_allow, const json_t *list,
                                   const json_t *groups, struct error *err)
{
    enum error_code code = check_groups(simulation, groups, err);
    json_t *rules = json_object(), *each;
    size_t i;
    json_array_foreach(list, i, each) json_object_set(rules, json_string_value(json_object_get(each, "id")), each);
    simulation->groups = arena_array(simulation->pending->request->arena, GROUPS_MAX, sizeof *simulation->groups);
    json_array_foreach(groups, i, each)
    {
        if (code == ERROR_NONE) code = take_group(simulation, each, rules, is_allow, err);
    }
    json_decref(rules);
    return code;
}

static enum error_code check_entity(const json_t *rule, struct error *err)
{
    struct str entity = json_get_str(rule, "entityType");
    if (str_eq(entity, str_c(access_entity_name(ENTITY_GITOPS_APPLICATIONS)))) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "change: the rule is of entities of the type %.*s; only gitopsApplications can be simulated",
                     STR_ARG(str_first(entity, 100)));
}

static enum error_code take_old(struct simulation *simulation, const json_t *old, struct error *err)
{
    bool is_known = simulation->is_default || !simulation->rule_id.len || json_is_object(old);
    if (!is_known) return error_set(err, ERROR_NOT_FOUND, "change: the rule does not exist");
    if (!json_is_object(old)) return ERROR_NONE;
    enum error_code code = check_entity(old, err);
    return code == ERROR_NONE ? take_changed(simulation, 0, old, err) : code;
}

enum { ROW_TEAM, ROW_IS_MISSING, ROW_DEFAULT, ROW_OLD, ROW_RULES, ROW_GROUPS };

static enum error_code take_row(struct simulation *simulation, const struct pg_rows *rows, struct error *err)
{
    struct str team = pg_rows_get(rows, 0, ROW_TEAM), old_text = pg_rows_get(rows, 0, ROW_OLD);
    bool is_allow = str_eq(pg_rows_get(rows, 0, ROW_DEFAULT), STR("ALLOW"));
    json_t *old = NULL, *list = NULL, *groups = NULL;
    if (team.len)
        return error_set(err, ERROR_INVALID, "teams: the team \"%.*s\" does not exist; teams are named by their ids",
                         STR_ARG(team));
    if (str_eq(pg_rows_get(rows, 0, ROW_IS_MISSING), STR("t")))
        return error_set(err, ERROR_NOT_FOUND, "subject: the user or the team does not exist");
    enum error_code code = ERROR_NONE;
    if (old_text.len) code = json_decode(old_text, &limits, &old, err);
    if (code == ERROR_NONE) code = json_decode(pg_rows_get(rows, 0, ROW_RULES), &limits, &list, err);
    if (code == ERROR_NONE) code = json_decode(pg_rows_get(rows, 0, ROW_GROUPS), &limits, &groups, err);
    if (code != ERROR_NONE) code = err->code = ERROR_INTERNAL;
    if (code == ERROR_NONE) code = take_old(simulation, old, err);
    if (code == ERROR_NONE && simulation->rule) code = take_changed(simulation, 1, simulation->rule, err);
    if (code == ERROR_NONE) code = take_groups(simulation, is_allow, list, groups, err);
    json_decref(old);
    json_decref(list);
    json_decref(groups);
    return code;
}

static void on_loaded(void *arg, const struct error *err, const struct pg_rows *results, size_t result_count)
{
    struct simulation *simulation = arg;
    struct error bad;
    (void)result_count;
    if (!err && take_row(simulation, results, &bad) != ERROR_NONE) err = &bad;
    if (err) {
        finish(simulation, err, NULL);
    } else if (simulation->group_count == 0) {
        simulation->is_complete = true;
        answer(simulation);
    } else {
        read_page(simulation);
    }
}

static void load(struct simulation *simulation)
{
    struct api_request *request = simulation->pending->request;
    char groups_max[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(request->api->options.pg, request->principal.account_id);
    simulation->page_arena = arena_create(0);
    simulation->differences = json_array();
    pg_add(batch, simulation_load, .account_id = pg_text(str_c(request->principal.account_id)),
           .rule_id = pg_text(simulation->rule_id), .user_id = pg_text(simulation->user_id),
           .team_id = pg_text(simulation->team_id), .is_about_all = pg_bool(simulation->is_default),
           .teams = pg_text(simulation->rule ? simulation->input.teams : STR("[]")),
           .groups_max = store_number(GROUPS_MAX, groups_max));
    pg_batch_submit(batch, STORE_READ_MS, on_loaded, simulation);
}

// ---- arguments ----------------------------------------------------------------------------------

static enum error_code take_rule(struct simulation *out, struct api_request *request, const json_t *rule,
                                 struct error *err)
{
    enum error_code code = rules_check_account(request, rule, err);
    if (code == ERROR_NONE) code = rule_input_take(rule, request->arena, &out->input, err);
    if (code == ERROR_NONE) code = check_entity(rule, err);
    out->rule = rule;
    return code;
}

static enum error_code take_change(struct simulation *out, struct api_request *request, const json_t *change,
                                   struct error *err)
{
    static const char *const members[] = {"create", "update", "remove", "defaultAccess"};
    const json_t *create = json_get_object(change, "create"), *update = json_get_object(change, "update");
    struct str removed = json_get_str(change, "remove"), access = json_get_str(change, "defaultAccess");
    unsigned given = 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = json_object_get(change, members[i]);
        if (value && !json_is_null(value)) given++;
    }
    if (given != 1)
        return error_set(err, ERROR_INVALID, "change: %u members, must be one of create, update, remove, defaultAccess",
                         given);
    out->rule_id = update ? json_get_str(update, "id") : removed;
    out->is_default = access.len > 0;
    out->is_default_allow = str_eq(access, STR("ALLOW"));
    if (!create && !out->is_default && (!out->rule_id.len || str_has_byte(out->rule_id, '\0')))
        return error_set(err, ERROR_NOT_FOUND, "change: the rule does not exist");
    if (!create && !update) return ERROR_NONE;
    return take_rule(out, request, create ? create : update, err);
}

static enum error_code take_subject(struct simulation *out, const json_t *subject, struct error *err)
{
    out->user_id = json_get_str(subject, "userId");
    out->team_id = json_get_str(subject, "teamId");
    if (str_has_byte(out->user_id, '\0') || str_has_byte(out->team_id, '\0'))
        return error_set(err, ERROR_NOT_FOUND, "subject: the user or the team does not exist");
    return ERROR_NONE;
}

static enum error_code take_window(struct simulation *out, const json_t *arguments, struct error *err)
{
    out->first = json_get_int(arguments, "first", DIFFERENCES_DEF);
    out->skip = json_get_int(arguments, "skip", 0);
    if (out->first < 0 || out->first > DIFFERENCES_MAX)
        return error_set(err, ERROR_INVALID, "first: %lld, must be 0 to %d", (long long)out->first, DIFFERENCES_MAX);
    if (out->skip < 0) return error_set(err, ERROR_INVALID, "skip: %lld, must be 0 or more", (long long)out->skip);
    return ERROR_NONE;
}

void rule_simulation_resolve(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct simulation *simulation = arena_alloc(request->arena, sizeof *simulation);
    struct error err;
    enum error_code code = take_change(simulation, request, json_get_object(arguments, "change"), &err);
    if (code == ERROR_NONE) code = take_subject(simulation, json_get_object(arguments, "subject"), &err);
    if (code == ERROR_NONE) code = take_window(simulation, arguments, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    simulation->pending = api_pending_create(request, on_resolved, arg);
    load(simulation);
}
