// report_tunnel: simulated agents. Each dials as culvert-agent does, is the HTTP/2 server inside its WebSocket, and
// tells records, zstd inside, on the stream that the platform opens, as fast as credit and the window let it.
#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "histogram.h"
#include "report_load.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/report.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

enum {
    RECORDS_MAX = 1 << 30,
    OUT_MAX = 4 * 1024 * 1024,
    OUT_ENOUGH = 128 * 1024,
    EVENTS_MAX = 64,
    TICK_MS = 1,
    LEVEL = 3
};

struct agent {
    struct report_lane *lane;
    struct client client;
    nghttp2_session *h2;
    struct ws_frame_decoder decoder;
    struct ws_frame_masks masks;
    struct strbuf out;     // WebSocket frames that TLS has not taken
    struct strbuf acks;    // an incomplete acknowledgement
    struct strbuf records; // of this run, one behind the other
    size_t *ends;          // of each
    size_t end_count, end_cap;
    size_t written; // bytes of the records
    int32_t stream; // 0: not open
    char path[64];
    bool deferred, wants_out;
    uint64_t sequence, first_sequence; // the last one made; the first of this run
    char boot_id[ID_UUID_BYTES];
    ZSTD_CCtx *zstd;
};

// ---- records -------------------------------------------------------------------------------------------------------

static void add_record(struct agent *agent, struct wire_report *record)
{
    struct error err;
    record->sequence = ++agent->sequence;
    if (wire_report_encode(record, &agent->records, &err) != ERROR_NONE) client_die(err.text);
    if (agent->end_count == agent->end_cap) {
        agent->end_cap = agent->end_cap ? agent->end_cap * 2 : 1024;
        agent->ends = mem_realloc(agent->ends, agent->end_cap * sizeof *agent->ends);
    }
    agent->ends[agent->end_count++] = agent->records.len;
}

static void forget_records(struct agent *agent)
{
    strbuf_clear(&agent->records);
    agent->end_count = agent->written = 0;
    agent->first_sequence = agent->sequence + 1;
}

static void tunnel_add(struct report_lane *lane, const struct report_mix_object *object)
{
    struct agent *agent = lane->way;
    size_t room = ZSTD_compressBound(object->manifest.len);
    char *packed = mem_alloc(room);
    size_t len = ZSTD_compressCCtx(agent->zstd, packed, room, object->manifest.at, object->manifest.len, LEVEL);
    struct wire_report record = {
        .type = WIRE_REPORT_OBJECT,
        .ref = object->ref,
        .cluster = STR("in-cluster"),
        .application_ns = object->application_ns,
        .application_name = object->application_name,
        .sync_status = object->sync_status,
        .health_status = object->health_status,
        .observed_at_ms = lane->clock_ms,
        .encoding = WIRE_REPORT_ZSTD,
        .manifest_bytes = object->manifest.len,
        .manifest = str_of(packed, len),
    };
    id_sha256(object->manifest.at, object->manifest.len, record.hash);
    add_record(agent, &record);
    mem_free(packed);
}

// Bytes that may leave now: whole records, as many as are allowed.
static size_t allowed_bytes(const struct agent *agent)
{
    size_t allowed = report_lane_allowed(agent->lane);
    if (agent->end_count < agent->lane->count) return 0; // HELLO is not told yet
    return allowed ? agent->ends[allowed - 1] : 0;
}

static ssize_t on_read(nghttp2_session *h2, int32_t stream, uint8_t *buf, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    struct agent *agent = source->ptr;
    (void)h2, (void)stream, (void)flags, (void)arg;
    bool is_hello = agent->sequence == 1;
    size_t most = is_hello ? agent->records.len : allowed_bytes(agent);
    size_t len = most - agent->written < length ? most - agent->written : length;
    if (!len) {
        agent->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(buf, agent->records.at + agent->written, len);
    agent->written += len;
    struct report_lane *lane = agent->lane;
    while (!is_hello && lane->told < lane->count && agent->ends[lane->told] <= agent->written)
        report_lane_tell(lane);
    return (ssize_t)len;
}

// ---- HTTP/2 --------------------------------------------------------------------------------------------------------

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct agent *agent = arg;
    (void)h2, (void)flags, (void)frame;
    if (name_len == 5 && memcmp(name, ":path", 5) == 0)
        snprintf(agent->path, sizeof agent->path, "%.*s", (int)value_len, (const char *)value);
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct agent *agent = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    nghttp2_nv head = {(uint8_t *)":status", (uint8_t *)"200", 7, 3, NGHTTP2_NV_FLAG_NONE};
    if (strcmp(agent->path, WIRE_REPORTS_PATH) != 0) {
        head.value = (uint8_t *)"404";
        return nghttp2_submit_response(h2, frame->hd.stream_id, &head, 1, NULL);
    }
    agent->stream = frame->hd.stream_id;
    nghttp2_data_provider provider = {.source.ptr = agent, .read_callback = on_read};
    return nghttp2_submit_response(h2, agent->stream, &head, 1, &provider);
}

static void take_ack(struct agent *agent, const struct wire_ack *ack)
{
    struct report_lane *lane = agent->lane;
    if (ack->type == WIRE_ACK_REJECT) {
        if (!lane->refused++) fprintf(stderr, "report_tunnel: refused: %.*s\n", STR_ARG(ack->reason));
    }
    if (ack->type != WIRE_ACK) return;
    while (lane->durable < lane->told && agent->first_sequence + lane->durable <= ack->sequence)
        report_lane_durable(lane, lane->durable);
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *at, size_t len, void *arg)
{
    struct agent *agent = arg;
    (void)h2, (void)flags;
    if (stream != agent->stream || !strbuf_add(&agent->acks, at, len)) return 0;
    size_t done = 0;
    while (done < agent->acks.len) {
        struct wire_ack ack;
        size_t used = 0;
        enum error_code code =
            wire_ack_decode((const uint8_t *)agent->acks.at + done, agent->acks.len - done, &ack, &used, NULL);
        if (code == ERROR_AGAIN) break;
        if (code != ERROR_NONE) client_die("an acknowledgement that is none");
        take_ack(agent, &ack);
        done += used;
    }
    strbuf_drop_front(&agent->acks, done);
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *arg)
{
    struct agent *agent = arg;
    (void)h2;
    if (stream == agent->stream) {
        fprintf(stderr, "report_tunnel: the reports stream ended with %u\n", code);
        client_die("the stream");
    }
    return 0;
}

static void start_http2(struct agent *agent)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&agent->h2, callbacks, agent) != 0) client_die("HTTP/2");
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
                                               {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000},
                                               {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
                                               {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
    nghttp2_submit_settings(agent->h2, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings);
    nghttp2_session_set_local_window_size(agent->h2, NGHTTP2_FLAG_NONE, 0, 0x7fffffff);
}

// ---- the connection ------------------------------------------------------------------------------------------------

static void want_out(struct agent *agent, bool wanted)
{
    if (agent->wants_out == wanted) return;
    agent->wants_out = wanted;
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = agent};
    if (epoll_ctl(agent->lane->load->epoll, EPOLL_CTL_MOD, agent->client.fd, &event) != 0) client_die("epoll");
}

static void add_frame(struct agent *agent, enum ws_frame_opcode opcode, const uint8_t *at, size_t len)
{
    uint8_t head[WS_FRAME_HEADER_BYTES_MAX], mask[WS_FRAME_MASK_BYTES];
    ws_frame_masks_next(&agent->masks, mask);
    strbuf_add(&agent->out, head, ws_frame_header(head, opcode, len, mask));
    size_t begin = agent->out.len;
    if (!strbuf_add(&agent->out, at, len)) client_die("too much to send");
    ws_frame_apply_mask((uint8_t *)agent->out.at + begin, len, mask, 0);
}

static void flush(struct agent *agent)
{
    if (agent->stream && agent->deferred && allowed_bytes(agent) > agent->written) {
        agent->deferred = false;
        nghttp2_session_resume_data(agent->h2, agent->stream);
    }
    for (;;) {
        const uint8_t *at;
        ssize_t n;
        while (agent->out.len < OUT_ENOUGH && (n = nghttp2_session_mem_send(agent->h2, &at)) > 0)
            add_frame(agent, WS_FRAME_BINARY, at, (size_t)n);
        if (!agent->out.len) break;
        int sent = SSL_write(agent->client.ssl, agent->out.at, (int)agent->out.len);
        if (sent <= 0) {
            if (SSL_get_error(agent->client.ssl, sent) != SSL_ERROR_WANT_WRITE) client_die("a tunnel broke");
            want_out(agent, true);
            return;
        }
        strbuf_drop_front(&agent->out, (size_t)sent);
    }
    want_out(agent, false);
}

static void feed(struct agent *agent, uint8_t *at, size_t len)
{
    for (;;) {
        struct ws_frame_event event;
        size_t used = 0;
        if (ws_frame_decode(&agent->decoder, at, len, &used, &event, NULL) != ERROR_NONE) client_die("a broken frame");
        if (event.type == WS_FRAME_EVENT_CLOSE) client_die("the platform closed a tunnel");
        if (event.type == WS_FRAME_EVENT_PING) add_frame(agent, WS_FRAME_PONG, event.at, event.len);
        if (event.type == WS_FRAME_EVENT_DATA && nghttp2_session_mem_recv(agent->h2, event.at, event.len) < 0)
            client_die("broken HTTP/2");
        at += used;
        len -= used;
        if (event.type == WS_FRAME_EVENT_NONE) break;
    }
}

static void receive(struct agent *agent)
{
    static uint8_t buffer[64 * 1024];
    long n;
    while ((n = client_receive(&agent->client, buffer, sizeof buffer)) > 0)
        feed(agent, buffer, (size_t)n);
    if (n < 0) client_die("a tunnel broke");
}

static void dial(struct agent *agent)
{
    struct report_lane *lane = agent->lane;
    char authorization[TOKEN_TEXT_BYTES + 8], key[WS_HANDSHAKE_KEY_BYTES], answer[CLIENT_HEAD_BYTES_MAX];
    snprintf(authorization, sizeof authorization, "Bearer %s", lane->token);
    const struct http_header headers[] = {{STR("Authorization"), str_c(authorization)},
                                          {STR(WIRE_HEADER_RUNTIME), str_c(lane->runtime)},
                                          {STR(WIRE_HEADER_INSTANCE_ID), STR("bench-0")},
                                          {STR(WIRE_HEADER_BOOT_ID), str_c(agent->boot_id)},
                                          {STR(WIRE_HEADER_AGENT_VERSION), STR("0.1.0")}};
    const struct ws_handshake_request upgrade = {.host = str_c(lane->load->client.authority),
                                                 .path = STR(WIRE_TUNNEL_PATH),
                                                 .subprotocol = STR(WIRE_TUNNEL_SUBPROTOCOL),
                                                 .headers = headers,
                                                 .header_count = sizeof headers / sizeof *headers};
    struct strbuf request;
    struct ws_handshake_answer read;
    size_t len = 0, head = 0;
    strbuf_init(&request, 4096);
    ws_handshake_key(key);
    client_open(&agent->client, &lane->load->client, lane->load->tls);
    if (ws_handshake_write(&upgrade, str_c(key), &request, NULL) != ERROR_NONE) client_die("the upgrade");
    client_send(&agent->client, request.at, request.len);
    strbuf_finish(&request);
    enum error_code code;
    do {
        long n = client_receive(&agent->client, answer + len, sizeof answer - len);
        if (n <= 0) client_die("no answer to the upgrade");
        len += (size_t)n;
        code = ws_handshake_read(answer, len, str_c(key), STR(WIRE_TUNNEL_SUBPROTOCOL), &read, &head, NULL);
    } while (code == ERROR_AGAIN);
    if (code != ERROR_NONE || read.status != 101) client_die("the platform refuses the tunnel");
    start_http2(agent);
    feed(agent, (uint8_t *)answer + head, len - head);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = agent};
    if (fcntl(agent->client.fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(lane->load->epoll, EPOLL_CTL_ADD, agent->client.fd, &event) != 0)
        client_die("epoll");
    flush(agent);
}

// ---- the way -------------------------------------------------------------------------------------------------------

static void turn(struct report_load *load, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int ready = epoll_wait(load->epoll, events, EVENTS_MAX, wait_ms);
    for (int i = 0; i < ready; i++) {
        struct agent *agent = events[i].data.ptr;
        if (events[i].events & EPOLLIN) receive(agent);
        flush(agent);
    }
}

static void tunnel_open(struct report_load *load)
{
    for (size_t i = 0; i < load->lane_count; i++) {
        struct agent *agent = load->lanes[i].way = mem_zalloc(sizeof *agent);
        agent->lane = &load->lanes[i];
        agent->zstd = ZSTD_createCCtx();
        strbuf_init(&agent->out, OUT_MAX);
        strbuf_init(&agent->acks, OUT_MAX);
        strbuf_init(&agent->records, RECORDS_MAX);
        ws_frame_decoder_init(&agent->decoder, false);
        ws_frame_masks_init(&agent->masks);
        id_uuid7(agent->boot_id);
        add_record(agent, &(struct wire_report){.type = WIRE_REPORT_HELLO, .boot_id = str_c(agent->boot_id)});
        dial(agent);
        while (!agent->stream || agent->written < agent->records.len)
            turn(load, 1000);
        forget_records(agent);
    }
}

static bool is_done(const struct report_load *load)
{
    for (size_t i = 0; i < load->running; i++)
        if (load->lanes[i].durable < load->lanes[i].count) return false;
    return true;
}

static void tunnel_run(struct report_load *load)
{
    for (size_t i = 0; i < load->running; i++)
        flush(load->lanes[i].way);
    while (!is_done(load)) {
        turn(load, load->rate > 0 ? TICK_MS : 1000);
        for (size_t i = 0; i < load->running && load->rate > 0; i++)
            flush(load->lanes[i].way);
    }
    for (size_t i = 0; i < load->running; i++)
        forget_records(load->lanes[i].way);
}

static void tunnel_idle(struct report_load *load)
{
    turn(load, 0);
}

static void tunnel_close(struct report_load *load)
{
    for (size_t i = 0; i < load->lane_count; i++) {
        struct agent *agent = load->lanes[i].way;
        client_close(&agent->client);
        nghttp2_session_del(agent->h2);
        strbuf_finish(&agent->out);
        strbuf_finish(&agent->acks);
        strbuf_finish(&agent->records);
        ZSTD_freeCCtx(agent->zstd);
        mem_free(agent->ends);
        mem_free(agent);
    }
}

const struct report_way report_way_tunnel = {
    .open = tunnel_open, .add = tunnel_add, .run = tunnel_run, .idle = tunnel_idle, .close = tunnel_close};
