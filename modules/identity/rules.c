#include "modules/identity/rules.h"

#include <inttypes.h>

#include "api/access/access_settings.h"
#include "api/resolvers.h"
#include "base/metrics/metrics.h"
#include "culvert_statements.h"
#include "modules/identity/rule_input.h"
#include "storage/sql/store_call.h"

#define ACCOUNT(request) pg_text(str_c((request)->principal.account_id))

static struct pg_batch *batch_of(const struct api_request *request)
{
    return pg_batch_create(request->api->options.pg, request->principal.account_id);
}

// Clients send the empty text for the account of their key. Another account is as a missing one.
enum error_code rules_check_account(const struct api_request *request, const json_t *arguments, struct error *err)
{
    struct str account = json_get_str(arguments, "accountId");
    if (!account.len || str_eq(account, str_c(request->principal.account_id))) return ERROR_NONE;
    return error_set(err, ERROR_NOT_FOUND, "accountId: the account does not exist; the empty text is your own");
}

// False: it was answered.
static bool begin(const struct api_request *request, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct error err;
    if (rules_check_account(request, arguments, &err) == ERROR_NONE) return true;
    on_resolved(arg, &err, NULL);
    return false;
}

// ---- reads and removal --------------------------------------------------------------------------

void rules_resolve_list(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    if (!begin(request, arguments, on_resolved, arg)) return;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, rules_list, .account_id = ACCOUNT(request),
           .entity_type = pg_text(json_get_str(arguments, "entityType")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void rules_resolve_get(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    if (!begin(request, arguments, on_resolved, arg)) return;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, rule_get, .account_id = ACCOUNT(request), .rule_id = pg_text(json_get_str(arguments, "id")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, api_resolved_node, api_pending_create(request, on_resolved, arg));
}

void rules_resolve_remove(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    if (!begin(request, arguments, on_resolved, arg)) return;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, rule_remove, .account_id = ACCOUNT(request), .rule_id = pg_text(json_get_str(arguments, "id")));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "id: the rule does not exist", api_resolved_node,
                      api_pending_create(request, on_resolved, arg));
}

// ---- creation and update ------------------------------------------------------------------------

// In the request's arena.
struct rule_change {
    struct api_pending *pending;
    char id[ID_ACCOUNT_BYTES];
    struct rule_input input;
};

static void count_refusal(void)
{
    metric_add(metric_with(metrics_counter("culvert_access_rules_refused_total",
                                           "Rules that were not stored because of a limit of the account.", NULL)),
               1);
}

// Why the statement stored nothing.
static enum error_code fault_of(const struct rule_change *change, const struct pg_rows *room, struct error *err)
{
    const struct access_settings *settings = access_settings_of(change->pending->request->api->options.config);
    struct str team = pg_rows_get(room, 0, 0), count = pg_rows_get(room, 0, 1), values = pg_rows_get(room, 0, 2);
    if (team.len)
        return error_set(err, ERROR_INVALID, "teams: the team \"%.*s\" does not exist; teams are named by their ids",
                         STR_ARG(team));
    uint64_t rules = strtoull(count.at, NULL, 10),
             sum = strtoull(values.at, NULL, 10) + change->input.rule.combinations;
    if (rules < (uint64_t)settings->rules_max && sum <= (uint64_t)settings->rule_values_max)
        return error_set(err, ERROR_NOT_FOUND, "id: the rule does not exist");
    count_refusal();
    return error_set(err, ERROR_LIMITED,
                     "the account has %" PRIu64 " rules, of at most %" PRIu64
                     " (access.rules_max), and with this one %" PRIu64
                     " combinations of attributes, of at most %" PRIu64 " (access.rule_values_max)",
                     rules, (uint64_t)settings->rules_max, sum, (uint64_t)settings->rule_values_max);
}

static void on_changed(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct rule_change *change = arg;
    struct error fault;
    (void)count;
    if (!err && pg_rows_count(&results[1]) == 0) {
        fault_of(change, &results[0], &fault);
        err = &fault;
    }
    api_resolved_node(change->pending, err, err ? STR_EMPTY : pg_rows_get(&results[1], 0, 0));
}

static void submit_change(struct rule_change *change, bool is_new)
{
    const struct access_settings *settings = access_settings_of(change->pending->request->api->options.config);
    struct api_request *request = change->pending->request;
    char rules_max[STORE_NUMBER_BYTES], values_max[STORE_NUMBER_BYTES], combinations[STORE_NUMBER_BYTES];
    struct pg_param id = pg_text(str_c(change->id)), teams = pg_text(change->input.teams);
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, rule_room, .account_id = ACCOUNT(request), .rule_id = id, .teams = teams);
#define VALUES                                                                                                         \
    .account_id = ACCOUNT(request), .rule_id = id, .entity_type = pg_text(change->input.entity),                       \
    .effect = pg_text(change->input.effect), .teams = teams, .tags = pg_text(change->input.tags),                      \
    .actions = pg_text(change->input.actions), .attributes = pg_text(change->input.attributes),                        \
    .combinations = store_number(change->input.rule.combinations, combinations),                                       \
    .rules_max = store_number((uint64_t)settings->rules_max, rules_max),                                               \
    .values_max = store_number((uint64_t)settings->rule_values_max, values_max)
    if (is_new)
        pg_add(batch, rule_create, VALUES);
    else
        pg_add(batch, rule_update, VALUES);
#undef VALUES
    pg_batch_submit(batch, STORE_CHANGE_MS, on_changed, change);
}

static void change_rule(struct api_request *request, const json_t *arguments, const json_t *input, struct str id,
                        gql_resolved on_resolved, void *arg)
{
    struct rule_change *change = arena_alloc(request->arena, sizeof *change);
    struct error err;
    enum error_code code = rules_check_account(request, arguments, &err);
    if (code == ERROR_NONE) code = rules_check_account(request, input, &err);
    if (code == ERROR_NONE && id.len >= sizeof change->id)
        code = error_set(&err, ERROR_NOT_FOUND, "id: the rule does not exist");
    if (code == ERROR_NONE) code = rule_input_take(input, request->arena, &change->input, &err);
    if (code != ERROR_NONE) {
        on_resolved(arg, &err, NULL);
        return;
    }
    change->pending = api_pending_create(request, on_resolved, arg);
    if (id.at)
        snprintf(change->id, sizeof change->id, "%.*s", STR_ARG(id));
    else
        id_account(change->id);
    submit_change(change, !id.at);
}

void rules_resolve_create(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    change_rule(ctx, arguments, json_get_object(arguments, "createAbacRuleInput"), STR_EMPTY, on_resolved, arg);
}

void rules_resolve_update(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    const json_t *input = json_get_object(arguments, "updateAbacRuleInput");
    struct str id = json_get_str(input, "id");
    change_rule(ctx, arguments, input, id.len ? id : STR("-"), on_resolved, arg);
}

// ---- the default --------------------------------------------------------------------------------

static void on_default(void *arg, const struct error *err, struct str node)
{
    struct api_pending *pending = arg;
    bool is_allow = str_eq(node, STR("\"ALLOW\""));
    pending->on_resolved(pending->arg, err, err ? NULL : json_string(is_allow ? "ALLOW" : "DENY"));
}

void rules_resolve_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    (void)arguments;
    struct api_request *request = ctx;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, default_access_get, .account_id = ACCOUNT(request));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_default, api_pending_create(request, on_resolved, arg));
}

void rules_resolve_set_default_access(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    struct api_request *request = ctx;
    struct pg_batch *batch = batch_of(request);
    pg_add(batch, default_access_set, .account_id = ACCOUNT(request),
           .access = pg_text(json_get_str(arguments, "access")));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_default, api_pending_create(request, on_resolved, arg));
}
