#include "server/ingress/ingress.h"

#include <stdio.h>

#include "base/http1/http1.h"
#include "base/mem.h"
#include "server/ingress/ingress_connection.h"
#include "server/ingress/ingress_http1.h"
#include "server/ingress/ingress_http2.h"

static void on_accepted(void *ctx, uv_tcp_t *tcp)
{
    ingress_connection_create(ctx, tcp);
}

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value ? value : otherwise;
}

static void take_options(struct ingress *ingress, const struct ingress_options *options)
{
    struct ingress_options *own = &ingress->options;
    *own = *options;
    own->listen = mem_strdup(options->listen);
    own->tls = NULL; // the reference is ingress->tls
    own->http2_streams_max = options->http2_streams_max ? options->http2_streams_max : 100;
    own->buffered_bytes_max = (size_t)or_default(options->buffered_bytes_max, 16 * 1024 * 1024);
    own->head_bytes_max = or_default(options->head_bytes_max, HTTP1_HEAD_BYTES_MAX);
    own->head_timeout_ms = or_default(options->head_timeout_ms, 10 * 1000);
    own->idle_timeout_ms = or_default(options->idle_timeout_ms, 60 * 1000);
    own->stall_timeout_ms = or_default(options->stall_timeout_ms, 60 * 1000);
}

static void make_metrics(struct ingress *ingress)
{
    ingress->open_connections =
        metric_with(metrics_gauge("culvert_http_connections", "Open connections of a door.", "door", NULL), "ingress");
    ingress->in_flight = metric_with(
        metrics_gauge("culvert_http_requests_in_flight", "Requests being answered.", "door", NULL), "ingress");
    ingress->seconds = metric_with(
        metrics_histogram("culvert_http_request_seconds", "Time from request to end of answer.", "door", NULL),
        "ingress");
    ingress->answers = metrics_counter("culvert_http_requests_total", "Answered requests.", "door", "code", NULL);
    ingress->cuts = metrics_counter("culvert_ingress_cuts_total",
                                    "Connections of the ingress door cut in the middle of a request.", "reason", NULL);
    ingress->refused = metrics_counter("culvert_ingress_refused_total",
                                       "Connections of the ingress door refused for being too many.", "cap", NULL);
    ingress->transfers = metric_with(
        metrics_counter("culvert_ingress_transfers_total",
                        "Connections that went to another loop, to be where the session is that they call.", NULL));
    ingress->by_protocol =
        metrics_counter("culvert_ingress_connections_total", "Connections that were opened.", "protocol", NULL);
}

static void on_answered(void *endpoint, int status, uint64_t took_us)
{
    struct ingress *ingress = endpoint;
    ingress_count_answer(ingress, status);
    metric_observe(ingress->seconds, (double)took_us / 1e6);
}

static void on_late_authentication(void *endpoint)
{
    ingress_check_closed(endpoint);
}

struct ingress *ingress_create(struct loop *loop, const struct ingress_options *options, struct error *err)
{
    struct ingress *ingress = mem_zalloc(sizeof *ingress);
    ingress->loop = loop;
    take_options(ingress, options);
    make_metrics(ingress);
    ingress->http1 = &ingress_http1_protocol;
    ingress->http2 = &ingress_http2_protocol;
    struct call_proxy_options calls = options->calls;
    calls.on_answered = on_answered;
    calls.on_late_authentication = on_late_authentication;
    calls.endpoint = ingress;
    calls.in_flight = ingress->in_flight;
    if (call_proxy_init(&ingress->calls, loop, &calls, err) != ERROR_NONE) {
        ingress_destroy(ingress);
        return NULL;
    }
    if (options->tls && options->hsts_max_age_ms)
        snprintf(ingress->hsts, sizeof ingress->hsts, "max-age=%llu",
                 (unsigned long long)(options->hsts_max_age_ms / 1000));
    struct quota *quota = options->connections ? options->connections : &ingress->no_cap;
    ingress->listener = tcp_listener_create(loop, ingress->options.listen, quota, on_accepted, ingress, err);
    if (!ingress->listener) {
        ingress_destroy(ingress);
        return NULL;
    }
    tls_stream_pool_init(&ingress->pool, loop_uv(loop));
    ingress_set_tls(ingress, options->tls);
    return ingress;
}

uint16_t ingress_port(const struct ingress *ingress)
{
    return tcp_listener_port(ingress->listener);
}

void ingress_set_tls(struct ingress *ingress, SSL_CTX *tls)
{
    if (tls) SSL_CTX_up_ref(tls);
    SSL_CTX_free(ingress->tls);
    ingress->tls = tls;
}

void ingress_wind_down(struct ingress *ingress)
{
    ingress->winding_down = true;
    for (struct ingress_connection *connection = ingress->first; connection; connection = connection->next)
        if (connection->protocol == ingress->http2) ingress_connection_stop(connection); // GOAWAY
}

void ingress_stop_accepting(struct ingress *ingress)
{
    if (ingress->stopped) return;
    ingress->stopped = ingress->winding_down = true;
    ingress->stopped_ms = uv_now(loop_uv(ingress->loop));
    tcp_listener_stop(ingress->listener);
    for (struct ingress_connection *connection = ingress->first; connection; connection = connection->next)
        ingress_connection_stop(connection);
}

bool ingress_is_idle(const struct ingress *ingress)
{
    if (ingress->calls.exchanges > 0) return false;
    // Requests may be on their way from clients that have not heard yet.
    return ingress->connections == 0 || !ingress->stopped ||
           uv_now(loop_uv(ingress->loop)) - ingress->stopped_ms >= INGRESS_GOODBYE_MS;
}

void ingress_close(struct ingress *ingress, loop_fn on_closed, void *arg)
{
    ingress_stop_accepting(ingress);
    ingress->closing = true;
    ingress->on_closed = on_closed;
    ingress->on_closed_arg = arg;
    for (struct ingress_connection *connection = ingress->first; connection; connection = connection->next)
        ingress_connection_close(connection);
    ingress_check_closed(ingress);
}

void ingress_destroy(struct ingress *ingress)
{
    if (!ingress) return;
    tcp_listener_destroy(ingress->listener);
    call_proxy_finish(&ingress->calls);
    SSL_CTX_free(ingress->tls);
    mem_free((char *)(uintptr_t)ingress->options.listen);
    mem_free(ingress);
}
