#include "server/worker_changes.h"

#include <stdio.h>

#include "api/api.h"
#include "api/live/live_settings.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/chores/credential_watch.h"
#include "server/worker_part.h"

#define CHANNEL "culvert:changes:"

// ---- to the loops -------------------------------------------------------------------------------

struct delivery {
    struct worker *worker;
    struct changes *changes;
};

static void on_delivery(void *arg)
{
    struct delivery *delivery = arg;
    if (delivery->worker->api_core) live_take_changes(api_live(delivery->worker->api_core), delivery->changes);
    changes_unref(delivery->changes);
    mem_free(delivery);
}

static void deliver(struct worker *from, struct changes *changes)
{
    struct server *server = from->server;
    if (atomic_load(&server->live_streams.used) == 0) return;
    if (from->api_core) live_take_changes(api_live(from->api_core), changes);
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct worker *worker = server->workers[i];
        if (!worker || worker == from) continue;
        struct delivery *delivery = mem_alloc(sizeof *delivery);
        *delivery = (struct delivery){worker, changes_ref(changes)};
        loop_post(worker->loop, on_delivery, delivery);
    }
}

// ---- to other replicas --------------------------------------------------------------------------

static void publish(struct worker *worker, struct str account_id, const struct changes *changes)
{
    if (!worker->redis || !redis_is_ready(worker->redis)) return;
    struct strbuf message;
    char channel[128];
    strbuf_init(&message, CHANGES_MESSAGE_BYTES_MAX);
    int len = snprintf(channel, sizeof channel, CHANNEL "%.*s", STR_ARG(account_id));
    if (changes_write(changes, worker->server->origin, &message)) {
        const struct str words[] = {STR("PUBLISH"), str_of(channel, (size_t)len), strbuf_str(&message)};
        redis_command(worker->redis, 3, words, NULL, NULL);
    }
    strbuf_finish(&message);
}

static void spread(struct worker *worker, struct str account_id, const struct change *items, size_t count)
{
    for (size_t begin = 0; begin < count; begin += CHANGES_MAX) {
        size_t some = count - begin < CHANGES_MAX ? count - begin : CHANGES_MAX;
        struct changes *changes = changes_create(account_id, items + begin, some);
        publish(worker, account_id, changes);
        deliver(worker, changes);
        changes_unref(changes);
    }
}

void worker_changes_of_reports(void *ctx, const struct report *reports, const struct report_outcome *outcomes,
                               size_t count)
{
    struct change *items = mem_array(count, sizeof *items);
    size_t changed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct report *report = &reports[i];
        bool is_object = report->type == REPORT_OBJECT || report->type == REPORT_DELETED;
        if (!is_object || outcomes[i].result != REPORT_APPLIED) continue;
        items[changed++] = (struct change){.ref.group = report->ref.group,
                                           .ref.version = report->ref.version,
                                           .ref.kind = report->ref.kind,
                                           .runtime = report->runtime,
                                           .ref.ns = report->ref.ns,
                                           .ref.name = report->ref.name,
                                           .is_deleted = report->type == REPORT_DELETED};
    }
    if (changed) spread(ctx, reports[0].account_id, items, changed);
    mem_free(items);
}

void worker_changes_of_runtime(void *ctx, const char *account_id, const char *runtime)
{
    const struct change change = {.ref.kind = STR("Runtime"), .runtime = str_c(runtime), .ref.name = str_c(runtime)};
    spread(ctx, str_c(account_id), &change, 1);
}

// ---- from other replicas ------------------------------------------------------------------------

static void on_message(void *arg, struct str channel, struct str message)
{
    struct worker *worker = arg;
    char origin[CHANGE_ORIGIN_BYTES];
    struct changes *changes;
    struct error err;
    if (atomic_load(&worker->server->live_streams.used) == 0) return;
    struct str account_id = str_from(channel, sizeof CHANNEL - 1);
    if (changes_parse(account_id, message, origin, &changes, &err) != ERROR_NONE) {
        log_limited(LOG_WARN, "live", "change_message_refused", account_id, STR_EMPTY, log_err(&err));
        return;
    }
    if (!str_eq(str_c(origin), str_c(worker->server->origin))) {
        metric_add(metric_with(metrics_counter("culvert_live_changes_received_total",
                                               "Messages about changes that other replicas committed.", NULL)),
                   1);
        deliver(worker, changes);
    }
    changes_unref(changes);
}

static enum error_code start(struct worker *worker, struct error *err)
{
    (void)err;
    if (worker->redis) redis_subscribe_pattern(worker->redis, STR(CHANNEL "*"), on_message, NULL, worker);
    return ERROR_NONE;
}

// Subscriptions would hold up the drain: their clients connect to another replica.
static void stop_accepting(struct worker *worker)
{
    if (worker->api_core) live_stop(api_live(worker->api_core));
}

// One loop listens to other replicas, for all.
const struct worker_part worker_part_changes = {
    .first_loop_alone = true, .start = start, .stop_accepting = stop_accepting};

// ---- rights -------------------------------------------------------------------------------------

static void *watch(void *ctx, const struct api_principal *who, void (*on_void)(void *arg, bool is_unchecked), void *arg)
{
    struct worker *worker = ctx;
    struct watched_credential *grant = mem_zalloc(sizeof *grant);
    credential_watch_add_rights(worker->credential_watch, grant, str_c(who->token_id), api_principal_rights(who),
                                on_void, arg);
    return grant;
}

static void unwatch(void *watched)
{
    credential_watch_remove(watched);
    mem_free(watched);
}

struct live_options worker_live_options(struct worker *worker)
{
    const struct live_settings *settings = live_settings_of(worker->server->config);
    return (struct live_options){
        .streams = &worker->server->live_streams,
        .accounts = worker->server->live_accounts,
        .users = worker->server->live_users,
        .reads_max = (unsigned)settings->reads_max,
        .delay_ms = (uint64_t)settings->delay_ms,
        .refresh_ms = (uint64_t)settings->refresh_ms,
        .heartbeat_ms = (uint64_t)settings->heartbeat_ms,
        .stall_ms = (uint64_t)settings->stall_ms,
        .build = CULVERT_VERSION,
        .watch = watch,
        .unwatch = unwatch,
        .ctx = worker,
    };
}
