#include "agent/tunnel/tunnel_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/calls/router_settings.h"
#include "agent/config.h"
#include "agent/secret_file.h"
#include "agent/tunnel/platform_settings.h"
#include "agent/tunnel/platform_url.h"
#include "agent/tunnel/redial.h"
#include "agent/tunnel/runtime_settings.h"
#include "agent/tunnel/runtime_token_file.h"
#include "agent/tunnel/tls.h"
#include "agent/tunnel/tunnel.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "base/token.h"
#include "tunnel/wire/handshake.h"

#define COMPONENT "tunnel"

enum {
    REPLACED_DEADLINE_MS = 60 * 1000,
    TUNNELS_MAX = 4, // one serving, one opening, the rest retiring
    BUFFERED_BYTES_MAX = 8 * 1024 * 1024,
    STATS_MS = 30 * 1000,
    STATS_LAGGING_MS = 5 * 1000, // while the platform should know that it shows old state
    LAG_TOLD_MS = 2 * 1000,      // from here on it should
    LAG_LOOK_MS = 1000,
    PROXY_URL_BYTES_MAX = 1024,
};

struct tunnel_client {
    uv_loop_t *loop;
    struct loop *owner;
    const struct config *config;
    struct tunnel_client_events events;
    void *arg;
    struct platform_url url;
    struct agent_tls *tls;
    char token_text[TOKEN_TEXT_BYTES];
    struct token token;
    char enrollment_text[TOKEN_TEXT_BYTES]; // of the enrollment token; empty: none
    bool is_known;                          // the platform has taken the runtime token
    char instance_id[128];
    char boot_id[ID_UUID_BYTES];
    struct agent_tunnel *tunnels[TUNNELS_MAX];
    struct timer timer; // the next dial
    struct timer drain_timer;
    struct timer stats_timer;
    uint64_t stats_at_ms;              // the last that were sent
    bool lag_sent;                     // they said that what was reported is old
    bool is_standby;                   // another agent of this runtime serves: the tunnel that opens is a standby
    bool destroyed, draining, replace; // replace: dial although one is serving
    struct redial redial;
    char reason[256];
    loop_fn on_drained;
    void *on_drained_arg;
    struct metric_family *dials;
    struct metric *online, *standby, *takeovers;
};

// ---- credential ------------------------------------------------------------------------------------------------

static enum error_code set_token(struct tunnel_client *client, struct str text, bool *out_changed, struct error *err)
{
    struct token token;
    enum error_code code = token_parse(text, &token, err);
    if (code) return code;
    *out_changed = !str_eq_secret(str_c(client->token_text), text);
    if (*out_changed) client->is_known = false;
    client->token = token;
    snprintf(client->token_text, sizeof(client->token_text), "%.*s", STR_ARG(text));
    return ERROR_NONE;
}

// An enrollment token that is gone is needed no more if the runtime token is there.
static enum error_code load_enrollment(struct tunnel_client *client, struct error *err)
{
    char text[TOKEN_TEXT_BYTES + 16];
    const struct runtime_settings *runtime = runtime_settings_of(client->config);
    struct str enrollment;
    struct token token;
    explicit_bzero(client->enrollment_text, sizeof(client->enrollment_text));
    if (!runtime->enrollment_token_file[0]) return ERROR_NONE;
    enum error_code code = secret_file_read(runtime->enrollment_token_file, text, sizeof(text), &enrollment, err);
    if (!code) code = token_parse(enrollment, &token, err);
    if (!code) snprintf(client->enrollment_text, sizeof(client->enrollment_text), "%.*s", STR_ARG(enrollment));
    explicit_bzero(text, sizeof(text));
    if (!code) return runtime_token_file_make(runtime->token_file, err);
    if (access(runtime->token_file, F_OK) != 0) return error_prefix(err, "enrollment.token_file");
    log_info(COMPONENT, "enrollment_token_not_used", log_err(err));
    return ERROR_NONE;
}

static enum error_code load_token(struct tunnel_client *client, bool *out_changed, struct error *err)
{
    char text[TOKEN_TEXT_BYTES + 16];
    const char *path = runtime_settings_of(client->config)->token_file;
    struct str token;
    *out_changed = false;
    enum error_code code = load_enrollment(client, err);
    if (code) return code;
    code = secret_file_read(path, text, sizeof(text), &token, err);
    if (code) {
        explicit_bzero(text, sizeof(text));
        return error_prefix(err, "runtime.token_file");
    }
    code = set_token(client, token, out_changed, err);
    if (code) error_prefix(err, path);
    explicit_bzero(text, sizeof(text));
    return code;
}

// ---- dialing ---------------------------------------------------------------------------------------------------

static struct agent_tunnel **find_state(struct tunnel_client *client, enum agent_tunnel_state state)
{
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i] && agent_tunnel_state(client->tunnels[i]) == state) return &client->tunnels[i];
    return NULL;
}

static struct agent_tunnel **find_free(struct tunnel_client *client)
{
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (!client->tunnels[i]) return &client->tunnels[i];
    struct agent_tunnel **oldest = find_state(client, AGENT_TUNNEL_RETIRING); // has had its time
    agent_tunnel_destroy(*oldest, STR("replaced"));
    *oldest = NULL;
    return oldest;
}

static void dial(struct tunnel_client *client);

static void on_drain_deadline(void *arg);

static void on_dial_timer(void *arg)
{
    dial(arg);
}

static void dial_after(struct tunnel_client *client, uint64_t wait_ms)
{
    if (client->draining || client->destroyed) return;
    timer_start(&client->timer, wait_ms, 0);
}

static void set_standby(struct tunnel_client *client, bool is_standby)
{
    client->is_standby = is_standby;
    metric_set(client->standby, is_standby);
}

static void set_online(struct tunnel_client *client)
{
    metric_set(client->online, find_state(client, AGENT_TUNNEL_SERVING) ? 1 : 0);
}

// How long to wait after a tunnel that did not open or did not last, and a line in the log that says what to do.
static uint64_t wait_after(struct tunnel_client *client, const struct agent_link_end *end)
{
    uint64_t wait_ms = redial_after_failure(&client->redial, end->status, end->retry_after_ms);
    const char *event = end->status ? "platform_refused" : "disconnected";
    const char *hint = "";
    if (end->status == 401 || end->status == 403) {
        event = "platform_refused_token";
        hint = end->status == 401
                   ? "the runtime token is not valid: issue a new one, write it to runtime.token_file and "
                     "send SIGHUP; or an intermediary terminates TLS: see platform.sealed_token"
                   : "the runtime token does not belong to runtime.name, or the runtime is disabled";
    } else if (end->status == 503 || end->status == 429) {
        event = "platform_busy";
    }
    if (client->enrollment_text[0] && !client->is_known && (end->status == 401 || end->status == 403)) {
        event = "enrollment_refused";
        hint = "the reason is the platform's: see docs/agent.md, \"Enroll\"; the agent goes on asking";
    }
    metric_add(metric_with(client->dials, end->status ? "refused" : "failed"), 1);
    log_warn(COMPONENT, event, log_err(&end->error), log_int("status", end->status), log_c("hint", hint),
             log_uint("retry_in_ms", wait_ms));
    set_standby(client, false);
    snprintf(client->reason, sizeof(client->reason), "%.*s", (int)sizeof(client->reason) - 1, end->error.text);
    return wait_ms;
}

static void finish_drain(struct tunnel_client *client)
{
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i]) return;
    loop_fn on_drained = client->on_drained;
    client->on_drained = NULL;
    timer_stop(&client->drain_timer);
    if (on_drained) on_drained(client->on_drained_arg);
}

// ---- events of a tunnel ----------------------------------------------------------------------------------------

static void on_serving(void *arg, struct agent_tunnel *tunnel)
{
    struct tunnel_client *client = arg;
    client->replace = false;
    client->is_known = true;
    client->reason[0] = '\0';
    set_standby(client, false);
    metric_add(metric_with(client->dials, "ok"), 1);
    log_info(COMPONENT, "connected", log_c("runtime", runtime_settings_of(client->config)->name),
             log_uint("epoch", agent_tunnel_epoch(tunnel)));
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i] && client->tunnels[i] != tunnel)
            agent_tunnel_retire(client->tunnels[i], REPLACED_DEADLINE_MS);
    set_online(client);
}

static void on_request(void *arg, struct agent_tunnel *tunnel, struct agent_stream *stream)
{
    struct tunnel_client *client = arg;
    client->events.on_request(client->arg, stream, agent_tunnel_trust(tunnel));
}

static void on_operation(void *arg, struct agent_tunnel *tunnel, const struct wire_control *operation)
{
    struct tunnel_client *client = arg;
    (void)tunnel;
    if (client->events.on_operation) client->events.on_operation(client->arg, operation);
}

static void on_drain(void *arg, struct agent_tunnel *tunnel, uint64_t spread_ms, uint64_t deadline_ms,
                     struct str reason)
{
    struct tunnel_client *client = arg;
    if (agent_tunnel_state(tunnel) != AGENT_TUNNEL_SERVING || client->draining || client->replace) return;
    uint64_t wait_ms = redial_after_drain(spread_ms);
    log_info(COMPONENT, "drain_requested", log_str("reason", reason), log_uint("dial_in_ms", wait_ms),
             log_uint("deadline_ms", deadline_ms));
    client->replace = true;
    dial_after(client, wait_ms);
}

static void on_superseded(void *arg, struct agent_tunnel *tunnel, uint64_t epoch, struct str reason)
{
    struct tunnel_client *client = arg;
    if (agent_tunnel_state(tunnel) == AGENT_TUNNEL_RETIRING) return; // by our own newer one
    if (find_state(client, AGENT_TUNNEL_OPENING)) {                  // or about to be
        agent_tunnel_retire(tunnel, REPLACED_DEADLINE_MS);
        return;
    }
    uint64_t wait_ms = redial_after_takeover();
    metric_add(client->takeovers, 1);
    log_warn(COMPONENT, "superseded", log_uint("newer_epoch", epoch), log_str("reason", reason),
             log_c("hint", "another agent serves this runtime"), log_uint("retry_in_ms", wait_ms));
    snprintf(client->reason, sizeof(client->reason), "another agent serves this runtime");
    agent_tunnel_retire(tunnel, REPLACED_DEADLINE_MS);
    set_online(client);
    dial_after(client, wait_ms);
}

static void on_standby(void *arg, struct agent_tunnel *tunnel, struct str reason)
{
    struct tunnel_client *client = arg;
    (void)tunnel;
    log_warn(
        COMPONENT, "session_standby", log_str("reason", reason),
        log_c("hint", "several agents use the token of this runtime: one serves, the others take over when it ends"));
    snprintf(client->reason, sizeof(client->reason), "another agent serves this runtime");
    set_standby(client, true);
}

static void on_end(void *arg, struct agent_tunnel *tunnel, const struct agent_link_end *end)
{
    struct tunnel_client *client = arg;
    enum agent_tunnel_state state = agent_tunnel_state(tunnel);
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i] == tunnel) client->tunnels[i] = NULL;
    redial_lived(&client->redial, agent_tunnel_serving_ms(tunnel));
    set_online(client);
    if (client->draining) {
        finish_drain(client);
    } else if (state == AGENT_TUNNEL_RETIRING) {
        log_info(COMPONENT, "tunnel_retired", log_err(&end->error));
    } else if (state == AGENT_TUNNEL_OPENING || !find_state(client, AGENT_TUNNEL_OPENING)) {
        dial_after(client, wait_after(client, end));
    }
}

static void dial(struct tunnel_client *client)
{
    static const struct agent_tunnel_events events = {
        .on_serving = on_serving,
        .on_request = on_request,
        .on_operation = on_operation,
        .on_drain = on_drain,
        .on_superseded = on_superseded,
        .on_standby = on_standby,
        .on_end = on_end,
    };
    if (client->draining || find_state(client, AGENT_TUNNEL_OPENING)) return;
    if (find_state(client, AGENT_TUNNEL_SERVING) && !client->replace) return;

    bool is_sealed = platform_settings_of(client->config)->sealed_token;
    bool enrolls = client->enrollment_text[0] && !client->is_known;
    char authorization[TOKEN_TEXT_BYTES + 8], hash[ID_SHA256_HEX_BYTES];
    snprintf(authorization, sizeof(authorization), "Bearer %s", client->token_text);
    format_hex(client->token.secret_sha256, ID_SHA256_BYTES, hash);
    const struct http_header headers[] = {
        {STR("Authorization"), str_c(authorization)}, // the first: it may be left out
        {STR(WIRE_HEADER_RUNTIME), str_c(runtime_settings_of(client->config)->name)},
        {STR(WIRE_HEADER_INSTANCE_ID), str_c(client->instance_id)},
        {STR(WIRE_HEADER_BOOT_ID), str_c(client->boot_id)},
        {STR(WIRE_HEADER_AGENT_VERSION), STR(CULVERT_VERSION)},
        {STR(WIRE_HEADER_FEATURES), STR(WIRE_FEATURE_BOUND_IDENTITY "," WIRE_FEATURE_OPERATIONS)},
        {STR("User-Agent"), STR("culvert-agent/" CULVERT_VERSION)},
        {STR(WIRE_HEADER_ENROLLMENT), str_c(client->enrollment_text)}, // may be left out
        {STR(WIRE_HEADER_ENROLLMENT_HASH), str_c(hash)},
    };
    size_t left_out = is_sealed + (is_sealed || !enrolls ? 2u : 0u);
    const struct agent_link_target target = {
        .host = str_c(client->url.host),
        .port = client->url.port,
        .proxy_host = str_c(client->url.proxy_host),
        .proxy_port = client->url.proxy_port,
        .proxy_credential = str_c(client->url.proxy_credential),
        .path = str_c(client->url.path),
        .headers = headers + is_sealed,
        .header_count = sizeof(headers) / sizeof(headers[0]) - left_out,
        .sealed_token = is_sealed ? str_c(client->token_text) : STR_EMPTY,
        .sealed_enrollment = is_sealed && enrolls ? str_c(client->enrollment_text) : STR_EMPTY,
    };
    const struct agent_session_options options = {
        .streams_max = (unsigned)router_settings_of(client->config)->streams_max,
        .buffered_bytes_max = BUFFERED_BYTES_MAX,
    };
    struct agent_link_end end = {.retry_after_ms = -1};
    struct agent_tunnel **slot = find_free(client);
    enum error_code code = agent_tunnel_start(client->loop, client->tls, &target, &options, client->token.secret_sha256,
                                              &events, client, slot, &end.error);
    explicit_bzero(authorization, sizeof(authorization));
    explicit_bzero(hash, sizeof(hash));
    if (code) dial_after(client, wait_after(client, &end));
}

// ---- statistics ------------------------------------------------------------------------------------------------

static uint64_t rss_bytes(void)
{
    size_t rss = 0;
    return uv_resident_set_memory(&rss) == 0 ? rss : 0;
}

// Now and then; at once when reports begin to lag and when they lag no more, and more often in between.
static bool stats_are_due(struct tunnel_client *client, const struct wire_control *stats)
{
    uint64_t now_ms = clock_mono_ms(), waited_ms = now_ms - client->stats_at_ms;
    bool lags = stats->behind_ms >= LAG_TOLD_MS || stats->blind_ms >= LAG_TOLD_MS;
    bool due = waited_ms >= STATS_MS || lags != client->lag_sent || (lags && waited_ms >= STATS_LAGGING_MS);
    if (!due) return false;
    client->stats_at_ms = now_ms;
    client->lag_sent = lags;
    return true;
}

static void on_stats(void *arg)
{
    struct tunnel_client *client = arg;
    struct agent_tunnel **serving = find_state(client, AGENT_TUNNEL_SERVING);
    if (!serving) {
        client->lag_sent = false; // what an earlier session was told is over with it
        return;
    }
    struct wire_control stats = {.type = WIRE_CONTROL_STATS};
    if (client->events.lag) client->events.lag(client->arg, &stats.behind_ms, &stats.blind_ms);
    if (!stats_are_due(client, &stats)) return;
    stats.rss_bytes = rss_bytes();
    for (unsigned i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i]) stats.streams_open += agent_tunnel_stream_count(client->tunnels[i]);
    if (client->events.outbox_depth) stats.outbox_depth = client->events.outbox_depth(client->arg);
    agent_tunnel_send_control(*serving, &stats);
}

// ---- public ----------------------------------------------------------------------------------------------------

static struct str first_env(const char *upper, const char *lower)
{
    const char *value = getenv(upper);
    if (!value || !value[0]) value = getenv(lower);
    return str_c(value);
}

static struct agent_tls *create_tls(const struct config *config, struct error *err)
{
    const struct platform_settings *platform = platform_settings_of(config);
    const struct agent_tls_options options = {.ca_file = platform->ca_file, .pins = platform->pin, .resumes = true};
    return agent_tls_create(&options, err);
}

static enum error_code set_url(struct tunnel_client *client, struct error *err)
{
    const struct config *config = client->config;
    const struct platform_settings *platform = platform_settings_of(config);
    char text[PROXY_URL_BYTES_MAX];
    struct str proxy = str_c(platform->proxy_url), exclude = str_c(platform->proxy_exclude);
    enum error_code code = ERROR_NONE;
    if (!proxy.len) proxy = first_env("HTTPS_PROXY", "https_proxy");
    if (!exclude.len) exclude = first_env("NO_PROXY", "no_proxy");
    if (str_starts(proxy, STR("file:"))) {
        code = secret_file_read(proxy.at + strlen("file:"), text, sizeof(text), &proxy, err);
        if (code) error_prefix(err, "proxy.url");
    }
    if (!code) code = platform_url_parse(str_c(platform->url), proxy, exclude, &client->url, err);
    explicit_bzero(text, sizeof(text));
    return code;
}

static enum error_code configure(struct tunnel_client *client, struct error *err)
{
    const struct config *config = client->config;
    const struct runtime_settings *runtime = runtime_settings_of(config);
    bool changed;
    enum error_code code = set_url(client, err);
    if (!code) code = load_token(client, &changed, err);
    if (code) return code;
    client->tls = create_tls(config, err);
    if (!client->tls) return err ? err->code : ERROR_INVALID;
    snprintf(client->instance_id, sizeof(client->instance_id), "%s", runtime->instance_id);
    if (!client->instance_id[0] && gethostname(client->instance_id, sizeof(client->instance_id) - 1) < 0)
        return error_set(err, ERROR_IO, "the host name is empty: set instance.id");
    return ERROR_NONE;
}

struct tunnel_client *tunnel_client_create(struct loop *loop, const struct config *config,
                                           const struct tunnel_client_events *events, void *arg, struct error *err)
{
    struct tunnel_client *client = mem_zalloc(sizeof(*client));
    client->owner = loop;
    client->loop = loop_uv(loop);
    client->config = config;
    client->events = *events;
    client->arg = arg;
    if (configure(client, err)) {
        agent_tls_destroy(client->tls);
        mem_free_secret(client, sizeof(*client));
        return NULL;
    }
    id_uuid7(client->boot_id);
    redial_init(&client->redial);
    snprintf(client->reason, sizeof(client->reason), "not connected yet");
    client->dials = metrics_counter("culvert_agent_tunnel_dials_total", "Attempts to open a tunnel.", "result", NULL);
    client->standby = metric_with(metrics_gauge(
        "culvert_agent_tunnel_standby", "1 while another agent serves the runtime and this one is on standby.", NULL));
    client->takeovers = metric_with(
        metrics_counter("culvert_agent_tunnel_takeovers_total", "Tunnels lost to another agent of the runtime.", NULL));
    client->online =
        metric_with(metrics_gauge("culvert_agent_tunnel_online", "1 while a tunnel is acknowledged and alive.", NULL));
    timer_init(&client->timer, client->loop, on_dial_timer, client);
    timer_init(&client->drain_timer, client->loop, on_drain_deadline, client);
    timer_init(&client->stats_timer, client->loop, on_stats, client);
    return client;
}

void tunnel_client_start(struct tunnel_client *client)
{
    dial_after(client, 0);
    client->stats_at_ms = clock_mono_ms();
    timer_start(&client->stats_timer, LAG_LOOK_MS, LAG_LOOK_MS);
}

// It was opened with the token from before.
static void drop_standby(struct tunnel_client *client)
{
    struct agent_tunnel **standby = find_state(client, AGENT_TUNNEL_OPENING);
    if (standby) {
        agent_tunnel_destroy(*standby, STR("the token changed"));
        *standby = NULL;
    }
    set_standby(client, false);
}

enum error_code tunnel_client_reload(struct tunnel_client *client, struct error *err)
{
    bool changed = false;
    struct agent_tls *tls = create_tls(client->config, err);
    if (!tls) return err ? err->code : ERROR_INVALID;
    enum error_code code = load_token(client, &changed, err);
    if (code) {
        agent_tls_destroy(tls);
        return code;
    }
    agent_tls_destroy(client->tls);
    client->tls = tls;
    redial_forget_failures(&client->redial);
    client->replace = changed && find_state(client, AGENT_TUNNEL_SERVING);
    if (changed && client->is_standby) drop_standby(client);
    dial_after(client, 0); // does nothing when a tunnel with the same token serves
    return ERROR_NONE;
}

static void on_drain_deadline(void *arg)
{
    struct tunnel_client *client = arg;
    for (unsigned i = 0; i < TUNNELS_MAX; i++) {
        if (client->tunnels[i]) agent_tunnel_destroy(client->tunnels[i], STR("agent stops"));
        client->tunnels[i] = NULL;
    }
    finish_drain(client);
}

void tunnel_client_drain(struct tunnel_client *client, uint64_t deadline_ms, loop_fn on_done, void *arg)
{
    client->draining = true;
    client->on_drained = on_done;
    client->on_drained_arg = arg;
    timer_stop(&client->timer);
    bool any = false;
    for (unsigned i = 0; i < TUNNELS_MAX; i++) {
        if (!client->tunnels[i]) continue;
        any = true;
        agent_tunnel_retire(client->tunnels[i], deadline_ms);
    }
    timer_start(&client->drain_timer, any ? deadline_ms + 1000 : 0, 0);
}

void tunnel_client_destroy(struct tunnel_client *client)
{
    if (!client) return;
    client->destroyed = true;
    for (unsigned i = 0; i < TUNNELS_MAX; i++) {
        if (client->tunnels[i]) agent_tunnel_destroy(client->tunnels[i], STR("agent stops"));
        client->tunnels[i] = NULL;
    }
    agent_tls_destroy(client->tls);
    timer_finish(&client->timer);
    timer_finish(&client->drain_timer);
    timer_finish(&client->stats_timer);
    mem_free_secret(client, sizeof(*client));
}

bool tunnel_client_send_control(struct tunnel_client *client, const struct wire_control *control)
{
    struct agent_tunnel **serving = find_state(client, AGENT_TUNNEL_SERVING);
    return serving && agent_tunnel_send_control(*serving, control);
}

void tunnel_client_get_info(const struct tunnel_client *client, struct tunnel_client_info *out)
{
    *out = (struct tunnel_client_info){.online = false, .standby = client->is_standby};
    snprintf(out->reason, sizeof(out->reason), "%s", client->reason);
    for (unsigned i = 0; i < TUNNELS_MAX; i++) {
        const struct agent_tunnel *tunnel = client->tunnels[i];
        if (!tunnel) continue;
        out->streams_open += agent_tunnel_stream_count(tunnel);
        if (agent_tunnel_state(tunnel) != AGENT_TUNNEL_SERVING) continue;
        out->online = true;
        out->epoch = agent_tunnel_epoch(tunnel);
        out->rtt_us = agent_tunnel_rtt_us(tunnel);
    }
}

const char *tunnel_client_boot_id(const struct tunnel_client *client)
{
    return client->boot_id;
}
