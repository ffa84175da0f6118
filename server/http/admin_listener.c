#include "server/http/admin_listener.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/strbuf.h"
#include "server/http/h2o_listener.h"

enum { CONNECTIONS_MAX = 128, TIMEOUT_MS = 10000, BODY_BYTES_MAX = 1024, METRICS_BYTES_MAX = 16 * 1024 * 1024 };

struct admin_listener {
    struct admin_listener_options options;
    struct h2o_listener *listener;
};

static bool query_has(struct str query, struct str key, struct str value)
{
    while (query.len) {
        struct str pair, name;
        str_cut(&query, '&', &pair);
        str_cut(&pair, '=', &name);
        if (str_eq(name, key) && (value.len == 0 || str_eq(pair, value))) return true;
    }
    return false;
}

// only: the one check that is asked for, or empty for all.
static void answer_ready(struct admin_listener *listener, struct listener_request *request, struct str only,
                         struct str query)
{
    struct strbuf body;
    strbuf_init(&body, 4096);
    bool ready = true, found = only.len == 0, verbose = query_has(query, STR("verbose"), STR_EMPTY);
    for (size_t i = 0; i < listener->options.check_count; i++) {
        const struct admin_check *check = &listener->options.checks[i];
        struct str name = str_c(check->name);
        if (only.len && !str_eq(only, name)) continue;
        found = true;
        bool excluded = query_has(query, STR("exclude"), name);
        bool holds = excluded || check->ready(listener->options.ctx);
        if (!holds && (!check->optional || only.len)) ready = false;
        strbuf_addf(&body, "[%s]%s %s%s\n", holds ? "+" : "-", check->name,
                    excluded ? "excluded"
                    : holds  ? "ok"
                             : "failed",
                    check->optional ? " (optional)" : "");
    }
    if (!found) {
        listener_request_answer(request, 404, "text/plain", NULL, 0, STR("no such check\n"));
    } else {
        if (ready && !verbose) strbuf_clear(&body);
        strbuf_add_c(&body, ready ? "ok" : "not ready");
        if (verbose) strbuf_add_byte(&body, '\n');
        listener_request_answer(request, ready ? 200 : 503, "text/plain", NULL, 0, strbuf_str(&body));
    }
    strbuf_finish(&body);
}

static void answer_metrics(struct listener_request *request)
{
    struct str accept = listener_request_header(request, STR("accept"));
    bool open_metrics = accept.len && memmem(accept.at, accept.len, "application/openmetrics-text", 28) != NULL;
    struct strbuf body;
    strbuf_init(&body, METRICS_BYTES_MAX);
    metrics_render(&body, open_metrics);
    const char *type =
        open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4";
    listener_request_answer(request, body.overflow ? 500 : 200, type, NULL, 0, strbuf_str(&body));
    strbuf_finish(&body);
}

static void on_request(void *ctx, struct listener_request *request)
{
    struct admin_listener *listener = ctx;
    struct str query = listener_request_target(request), path;
    str_cut(&query, '?', &path);
    struct str method = listener_request_method(request);
    if (!str_eq(method, STR("GET")) && !str_eq(method, STR("HEAD"))) {
        struct http_header allow = {STR("allow"), STR("GET, HEAD")};
        listener_request_answer(request, 405, "text/plain", &allow, 1, STR("method not allowed\n"));
    } else if (str_eq(path, STR("/livez"))) {
        listener_request_answer(request, 200, "text/plain", NULL, 0, STR("ok"));
    } else if (str_eq(path, STR("/readyz")) || str_eq(path, STR("/healthz"))) {
        answer_ready(listener, request, STR_EMPTY, query);
    } else if (str_starts(path, STR("/readyz/"))) {
        answer_ready(listener, request, str_from(path, 8), query);
    } else if (str_eq(path, STR("/metrics"))) {
        answer_metrics(request);
    } else if (str_eq(path, STR("/version"))) {
        listener_request_answer(request, 200, "application/json", NULL, 0,
                                STR("{\"name\":\"culvertd\",\"version\":\"" CULVERT_VERSION "\"}"));
    } else {
        listener_request_answer(request, 404, "text/plain", NULL, 0,
                                STR("not found; try /livez /readyz /metrics /version\n"));
    }
}

struct admin_listener *admin_listener_create(struct loop *loop, const struct admin_listener_options *options,
                                             struct error *err)
{
    struct admin_listener *listener = mem_zalloc(sizeof *listener);
    listener->options = *options;
    listener->listener = h2o_listener_create(loop,
                                             &(struct h2o_listener_options){
                                                 .name = "admin",
                                                 .listen = options->listen,
                                                 .request_timeout_ms = TIMEOUT_MS,
                                                 .body_bytes_max = BODY_BYTES_MAX,
                                                 .connections_max = CONNECTIONS_MAX,
                                                 .on_request = on_request,
                                                 .ctx = listener,
                                             },
                                             err);
    if (listener->listener) return listener;
    mem_free(listener);
    return NULL;
}

void admin_listener_close(struct admin_listener *listener, loop_fn on_closed, void *arg)
{
    h2o_listener_close(listener->listener, on_closed, arg);
}

void admin_listener_destroy(struct admin_listener *listener)
{
    if (!listener) return;
    h2o_listener_destroy(listener->listener);
    mem_free(listener);
}
