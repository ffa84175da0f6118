#include "agent/tunnel/tunnel.h"

#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "tunnel/wire/ws_frame.h"

enum { HELLO_TIMEOUT_MS = 15000 };

struct agent_tunnel {
    struct agent_link *link;       // NULL once it has ended
    struct agent_session *session; // from on_open on
    struct agent_session_options options;
    struct agent_tunnel_events events;
    void *arg;
    enum agent_tunnel_state state;
    struct agent_tunnel_trust trust;
    uint64_t rtt_us, serving_since_ms;
    uv_timer_t timer; // HELLO_ACK, then the end of retirement
    uv_timer_t soon;  // ends the tunnel outside of its own callbacks
    unsigned handles;
    bool ended;
    struct agent_link_end why; // for `soon`
    struct metric *bytes_in, *bytes_out, *rtt;
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct agent_tunnel *tunnel = handle->data;
    if (--tunnel->handles) return;
    explicit_bzero(&tunnel->trust, sizeof(tunnel->trust));
    mem_free(tunnel);
}

static void shut(struct agent_tunnel *tunnel)
{
    tunnel->ended = true;
    agent_session_destroy(tunnel->session);
    tunnel->session = NULL;
    uv_close((uv_handle_t *)&tunnel->timer, on_handle_closed);
    uv_close((uv_handle_t *)&tunnel->soon, on_handle_closed);
}

void agent_tunnel_destroy(struct agent_tunnel *tunnel, struct str reason)
{
    if (tunnel->ended) return;
    if (tunnel->link) agent_link_close(tunnel->link, WS_FRAME_CLOSE_GOING_AWAY, reason);
    tunnel->link = NULL;
    shut(tunnel);
}

static void on_soon(uv_timer_t *timer)
{
    struct agent_tunnel *tunnel = timer->data;
    bool broken = tunnel->why.error.code == ERROR_PROTOCOL;
    if (tunnel->link)
        agent_link_close(tunnel->link, broken ? WS_FRAME_CLOSE_PROTOCOL : WS_FRAME_CLOSE_NORMAL,
                         str_c(tunnel->why.error.text));
    tunnel->link = NULL;
    tunnel->events.on_end(tunnel->arg, tunnel, &tunnel->why);
    shut(tunnel);
}

// The link and the session are on the stack below: end in the loop's next turn.
static void end_soon(struct agent_tunnel *tunnel, const struct error *err)
{
    if (tunnel->ended || uv_is_active((uv_handle_t *)&tunnel->soon)) return;
    tunnel->why = (struct agent_link_end){.retry_after_ms = -1, .error = *err};
    uv_timer_start(&tunnel->soon, on_soon, 0, 0);
}

static void end_retired(struct agent_tunnel *tunnel, const char *reason)
{
    struct error err = {0};
    error_set(&err, ERROR_NONE, "%s", reason);
    end_soon(tunnel, &err);
}

// ---- session ---------------------------------------------------------------------------------------------------

static void on_session_request(void *arg, struct agent_stream *stream)
{
    struct agent_tunnel *tunnel = arg;
    tunnel->events.on_request(tunnel->arg, tunnel, stream);
}

static void on_session_wants_write(void *arg)
{
    struct agent_tunnel *tunnel = arg;
    if (tunnel->link) agent_link_wake(tunnel->link);
}

static void take_time(struct agent_tunnel *tunnel, uint64_t time_ms)
{
    if (time_ms <= INT64_MAX) tunnel->trust.platform_ahead_ms = (int64_t)time_ms - (int64_t)clock_mono_ms();
}

static void on_hello_ack(struct agent_tunnel *tunnel, const struct wire_control *control)
{
    if (tunnel->state != AGENT_TUNNEL_OPENING) return;
    tunnel->state = AGENT_TUNNEL_SERVING;
    tunnel->trust.epoch = control->epoch;
    tunnel->trust.is_bound = control->capabilities & WIRE_CAPABILITY_BOUND_IDENTITY;
    take_time(tunnel, control->time_ms);
    tunnel->serving_since_ms = clock_mono_ms();
    uv_timer_stop(&tunnel->timer);
    tunnel->events.on_serving(tunnel->arg, tunnel);
}

static void on_session_control(void *arg, const uint8_t *at, size_t len)
{
    struct agent_tunnel *tunnel = arg;
    struct wire_control control;
    struct error err = {0};
    enum error_code code = wire_control_decode(at, len, &control, &err);
    if (code == ERROR_NOT_FOUND) return; // of a newer platform
    if (code) {
        end_soon(tunnel, &err);
        return;
    }
    switch (control.type) {
    case WIRE_CONTROL_HELLO_ACK: on_hello_ack(tunnel, &control); break;
    case WIRE_CONTROL_DRAIN:
        tunnel->events.on_drain(tunnel->arg, tunnel, control.spread_ms, control.deadline_ms, control.reason);
        break;
    case WIRE_CONTROL_STANDBY: // HELLO_ACK may be a long way off
        if (tunnel->state != AGENT_TUNNEL_OPENING) break;
        uv_timer_stop(&tunnel->timer);
        tunnel->events.on_standby(tunnel->arg, tunnel, control.reason);
        break;
    case WIRE_CONTROL_SUPERSEDED:
        tunnel->events.on_superseded(tunnel->arg, tunnel, control.epoch, control.reason);
        break;
    case WIRE_CONTROL_TIME: take_time(tunnel, control.time_ms); break;
    case WIRE_CONTROL_OPERATION:
        if (tunnel->state == AGENT_TUNNEL_SERVING && tunnel->events.on_operation)
            tunnel->events.on_operation(tunnel->arg, tunnel, &control);
        break;
    case WIRE_CONTROL_OPERATION_STATE:
    case WIRE_CONTROL_STATS: break; // ours to send
    }
}

static void on_session_goaway(void *arg)
{
    struct agent_tunnel *tunnel = arg;
    // GOAWAY without DRAIN in front of it: an intermediary or an old platform that is about to
    // leave.
    tunnel->events.on_drain(tunnel->arg, tunnel, 1000, 30000, STR("GOAWAY"));
}

static void on_session_idle(void *arg)
{
    struct agent_tunnel *tunnel = arg;
    if (tunnel->state == AGENT_TUNNEL_RETIRING) end_retired(tunnel, "retired");
}

// ---- link ------------------------------------------------------------------------------------------------------

static void on_hello_timeout(uv_timer_t *timer)
{
    struct agent_tunnel *tunnel = timer->data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, "the platform did not acknowledge the session");
    end_soon(tunnel, &err);
}

static void on_link_open(void *arg)
{
    static const struct agent_session_events events = {
        .on_request = on_session_request,
        .on_wants_write = on_session_wants_write,
        .on_control = on_session_control,
        .on_goaway = on_session_goaway,
        .on_idle = on_session_idle,
    };
    struct agent_tunnel *tunnel = arg;
    tunnel->session = agent_session_create(&tunnel->options, &events, tunnel);
    uv_timer_start(&tunnel->timer, on_hello_timeout, HELLO_TIMEOUT_MS, 0);
}

static void on_link_bytes(void *arg, const uint8_t *at, size_t len)
{
    struct agent_tunnel *tunnel = arg;
    struct error err = {0};
    metric_add(tunnel->bytes_in, len);
    if (agent_session_feed(tunnel->session, at, len, &err)) end_soon(tunnel, &err);
}

static size_t on_link_fill(void *arg, uint8_t *out, size_t cap)
{
    struct agent_tunnel *tunnel = arg;
    size_t n = tunnel->session ? agent_session_take(tunnel->session, out, cap) : 0;
    metric_add(tunnel->bytes_out, n);
    return n;
}

static void on_link_rtt(void *arg, uint64_t rtt_us)
{
    struct agent_tunnel *tunnel = arg;
    tunnel->rtt_us = rtt_us;
    metric_observe(tunnel->rtt, (double)rtt_us / 1e6);
    if (tunnel->session) agent_session_set_rtt(tunnel->session, rtt_us);
}

static void on_link_end(void *arg, const struct agent_link_end *end)
{
    struct agent_tunnel *tunnel = arg;
    tunnel->link = NULL;
    // May come from inside agent_session_feed() (a write that failed there): the session goes in
    // the next turn.
    if (tunnel->ended || uv_is_active((uv_handle_t *)&tunnel->soon)) return;
    tunnel->why = *end;
    uv_timer_start(&tunnel->soon, on_soon, 0, 0);
}

// ---- public ----------------------------------------------------------------------------------------------------

enum error_code agent_tunnel_start(uv_loop_t *loop, struct agent_tls *tls, const struct agent_link_target *target,
                                   const struct agent_session_options *options, const uint8_t key[ID_SHA256_BYTES],
                                   const struct agent_tunnel_events *events, void *arg, struct agent_tunnel **out,
                                   struct error *err)
{
    static const struct agent_link_events link_events = {
        .on_open = on_link_open,
        .on_bytes = on_link_bytes,
        .on_fill = on_link_fill,
        .on_rtt = on_link_rtt,
        .on_end = on_link_end,
    };
    struct agent_tunnel *tunnel = mem_zalloc(sizeof(*tunnel));
    enum error_code code = agent_link_start(loop, tls, target, &link_events, tunnel, &tunnel->link, err);
    if (code) {
        mem_free(tunnel);
        return code;
    }
    tunnel->options = *options;
    tunnel->events = *events;
    tunnel->arg = arg;
    memcpy(tunnel->trust.key, key, sizeof(tunnel->trust.key));
    uv_timer_init(loop, &tunnel->timer);
    uv_timer_init(loop, &tunnel->soon);
    tunnel->timer.data = tunnel->soon.data = tunnel;
    tunnel->handles = 2;
    struct metric_family *bytes =
        metrics_counter("culvert_agent_tunnel_bytes_total", "Bytes inside the tunnel.", "direction", NULL);
    tunnel->bytes_in = metric_with(bytes, "in");
    tunnel->bytes_out = metric_with(bytes, "out");
    tunnel->rtt = metric_with(
        metrics_histogram("culvert_agent_tunnel_rtt_seconds", "Round-trip time between agent and platform.", NULL));
    *out = tunnel;
    return ERROR_NONE;
}

static void on_retire_deadline(uv_timer_t *timer)
{
    end_retired(timer->data, "calls did not finish in time");
}

void agent_tunnel_retire(struct agent_tunnel *tunnel, uint64_t deadline_ms)
{
    if (tunnel->ended || tunnel->state == AGENT_TUNNEL_RETIRING) return;
    tunnel->state = AGENT_TUNNEL_RETIRING;
    if (!tunnel->session) {
        end_retired(tunnel, "no longer needed");
        return;
    }
    agent_session_drain(tunnel->session);
    uv_timer_start(&tunnel->timer, on_retire_deadline, deadline_ms, 0);
    if (!agent_session_is_busy(tunnel->session)) end_retired(tunnel, "retired");
}

bool agent_tunnel_send_control(struct agent_tunnel *tunnel, const struct wire_control *control)
{
    struct strbuf payload;
    struct error err = {0};
    bool is_taken = false;
    if (tunnel->ended || !tunnel->session) return false;
    strbuf_init(&payload, WIRE_CONTROL_BYTES_MAX);
    if (wire_control_encode(control, &payload, &err))
        log_warn("tunnel", "control_not_encoded", log_err(&err));
    else
        is_taken = agent_session_send_control(tunnel->session, (const uint8_t *)payload.at, payload.len);
    strbuf_finish(&payload);
    return is_taken;
}

enum agent_tunnel_state agent_tunnel_state(const struct agent_tunnel *tunnel)
{
    return tunnel->state;
}

struct agent_tunnel_trust *agent_tunnel_trust(struct agent_tunnel *tunnel)
{
    return &tunnel->trust;
}

uint64_t agent_tunnel_epoch(const struct agent_tunnel *tunnel)
{
    return tunnel->trust.epoch;
}

uint64_t agent_tunnel_rtt_us(const struct agent_tunnel *tunnel)
{
    return tunnel->rtt_us;
}

uint64_t agent_tunnel_serving_ms(const struct agent_tunnel *tunnel)
{
    return tunnel->serving_since_ms ? clock_mono_ms() - tunnel->serving_since_ms : 0;
}

unsigned agent_tunnel_stream_count(const struct agent_tunnel *tunnel)
{
    return tunnel->session ? agent_session_stream_count(tunnel->session) : 0;
}
