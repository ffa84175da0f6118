#include "tests/unit/tunnel/fake_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tunnel/wire/control.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/report.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

enum { BUFFER_BYTES = 64 * 1024, POLL_MS = 5, STREAM_WINDOW_BYTES = 64 * 1024, LATE_BYTES_MAX = 16, LATE_MS = 100 };

struct answer {
    char path[64];
    char method[16];
    struct strbuf body; // of the request, for /echo and the acknowledgements; of the answer for the rest
    uint64_t left;      // bytes still to be made up
    bool whole;         // nothing will be added to body
    bool is_reports, has_trailers, responded;
};

struct fake_agent {
    struct fake_agent_options options;
    struct fake_agent_seen seen;
    pthread_t thread;
    atomic_bool stop;
    int fd;
    SSL_CTX *tls;
    SSL *ssl;
    nghttp2_session *h2;
    struct ws_frame_decoder decoder;
    struct ws_frame_masks masks;
    struct strbuf out; // frames for the socket
    uint8_t control[WIRE_CONTROL_BYTES_MAX];
    size_t control_len;
    atomic_bool says_now, mute;
    bool saying; // it is on its way
    int own_port;
    uint64_t word_at_ms;
    bool asks;                    // what waits in `out` is a question
    uint8_t late[LATE_BYTES_MAX]; // not sent yet
    uint64_t late_at_ms;          // 0: nothing
};

static ssize_t agent_read_body(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags,
                               nghttp2_data_source *source, void *arg)
{
    (void)arg;
    struct answer *answer = source->ptr;
    size_t len = answer->body.len < cap ? answer->body.len : cap;
    if (len) {
        memcpy(out, answer->body.at, len);
        strbuf_drop_front(&answer->body, len);
    } else if (answer->left) {
        len = answer->left < cap ? (size_t)answer->left : cap;
        memset(out, 'x', len);
        answer->left -= len;
    }
    bool done = answer->whole && answer->body.len == 0 && answer->left == 0;
    if (len == 0 && !done) return NGHTTP2_ERR_DEFERRED;
    if (done) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (done && answer->has_trailers) {
        nghttp2_nv trailer = {(uint8_t *)"grpc-status", (uint8_t *)"0", 11, 1, NGHTTP2_NV_FLAG_NONE};
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(h2, id, &trailer, 1);
    }
    return (ssize_t)len;
}

static void agent_respond(struct fake_agent *agent, int32_t id, struct answer *answer, const char *status,
                          const char *cause)
{
    nghttp2_nv fields[2] = {{(uint8_t *)":status", (uint8_t *)(uintptr_t)status, 7, 3, NGHTTP2_NV_FLAG_NONE}};
    size_t count = 1;
    if (cause)
        fields[count++] = (nghttp2_nv){(uint8_t *)WIRE_HEADER_CAUSE, (uint8_t *)(uintptr_t)cause,
                                       strlen(WIRE_HEADER_CAUSE), strlen(cause), NGHTTP2_NV_FLAG_NONE};
    nghttp2_data_provider body = {.source.ptr = answer, .read_callback = agent_read_body};
    answer->responded = true;
    nghttp2_submit_response(agent->h2, id, fields, count, &body);
}

static void agent_add_report(struct answer *answer, const struct wire_report *report)
{
    if (wire_report_encode(report, &answer->body, NULL)) abort();
}

static void agent_serve_reports(struct fake_agent *agent, int32_t id, struct answer *answer)
{
    answer->is_reports = true;
    if (agent->options.reports_refused) {
        answer->whole = true;
        agent_respond(agent, id, answer, "404", NULL);
        return;
    }
    if (!agent->options.reports_broken)
        agent_add_report(answer,
                         &(struct wire_report){.type = WIRE_REPORT_HELLO, .sequence = 1, .boot_id = STR("boot")});
    for (unsigned i = 0; i < agent->options.reports; i++) {
        static char manifest[20000];
        struct wire_report report = {.type = WIRE_REPORT_OBJECT,
                                     .sequence = i + 2,
                                     .ref.version = STR("v1"),
                                     .ref.kind = STR("ConfigMap"),
                                     .ref.name = STR("settings"),
                                     .hash = {1},
                                     .manifest = str_of(manifest, 1 + (i * 997) % sizeof(manifest))};
        agent_add_report(answer, &report);
    }
    if (agent->options.report_bytes) {
        char *manifest = mem_zalloc(agent->options.report_bytes);
        const struct wire_report report = {.type = WIRE_REPORT_OBJECT,
                                           .sequence = agent->options.reports + 2,
                                           .ref.version = STR("v1"),
                                           .ref.kind = STR("ConfigMap"),
                                           .ref.name = STR("large"),
                                           .hash = {1},
                                           .manifest = str_of(manifest, agent->options.report_bytes)};
        agent_add_report(answer, &report);
        answer->body.len -= agent->options.report_cut;
        mem_free(manifest);
    }
    if (agent->options.reports_broken)
        agent_add_report(answer, &(struct wire_report){.type = WIRE_REPORT_SNAPSHOT_BEGIN, .sequence = 1});
    agent_respond(agent, id, answer, "200", NULL);
}

static void agent_serve(struct fake_agent *agent, int32_t id, struct answer *answer)
{
    const char *path = answer->path;
    unsigned long long bytes = 0;
    atomic_fetch_add(&agent->seen.requests, 1);
    if (!strcmp(path, WIRE_REPORTS_PATH)) {
        agent_serve_reports(agent, id, answer);
        return;
    }
    if (!strcmp(path, "/hang") || agent->options.answers_nothing) return;
    if (sscanf(path, "/refuse/%llu", &bytes) == 1 && atomic_load(&agent->seen.requests) - 1 <= bytes) {
        nghttp2_submit_rst_stream(agent->h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
        return;
    }
    if (!strcmp(path, "/echo")) {
        agent_respond(agent, id, answer, "200", NULL);
        return;
    }
    answer->whole = true;
    unsigned infos = !strcmp(path, "/info");
    (void)sscanf(path, "/info/%u", &infos);
    for (; infos > 0; infos--) {
        const nghttp2_nv early[2] = {
            {(uint8_t *)":status", (uint8_t *)"103", 7, 3, NGHTTP2_NV_FLAG_NONE},
            {(uint8_t *)"link", (uint8_t *)"</style.css>", 4, 12, NGHTTP2_NV_FLAG_NONE},
        };
        nghttp2_submit_headers(agent->h2, NGHTTP2_FLAG_NONE, id, NULL, early, 2, NULL);
    }
    if (!strcmp(path, "/reset")) {
        nghttp2_submit_rst_stream(agent->h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
    } else if (!strcmp(path, "/cause")) {
        agent_respond(agent, id, answer, "502", "dial-failed");
    } else if (!strcmp(path, "/trailers")) {
        answer->has_trailers = true;
        strbuf_add_c(&answer->body, "message");
        agent_respond(agent, id, answer, "200", NULL);
    } else if (sscanf(path, "/bytes/%llu", &bytes) == 1) {
        answer->left = bytes;
        agent_respond(agent, id, answer, "200", NULL);
    } else {
        strbuf_add_c(&answer->body, "hello");
        agent_respond(agent, id, answer, "200", NULL);
    }
}

// ---- frames --------------------------------------------------------------------------------------------------

static int agent_on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    (void)arg;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0; // trailers
    struct answer *answer = mem_zalloc(sizeof(*answer));
    strbuf_init(&answer->body, 64 * 1024 * 1024);
    nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, answer);
    return 0;
}

static int agent_on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                           const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    (void)flags;
    struct fake_agent *agent = arg;
    struct answer *answer = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!answer) return 0;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        atomic_fetch_add(&agent->seen.trailers, 1);
        return 0;
    }
    if (str_eq(str_of((const char *)name, name_len), STR(":path")))
        snprintf(answer->path, sizeof(answer->path), "%.*s", (int)value_len, (const char *)value);
    if (str_eq(str_of((const char *)name, name_len), STR(WIRE_HEADER_IDENTITY)))
        atomic_fetch_add(&agent->seen.identities, 1);
    return 0;
}

static void agent_at(struct fake_agent *agent, enum fake_agent_moment moment)
{
    if (agent->options.says_when == moment) atomic_store(&agent->says_now, agent->options.says != NULL);
}

static void agent_take_control(struct fake_agent *agent)
{
    struct wire_control control;
    if (wire_control_decode(agent->control, agent->control_len, &control, NULL)) abort();
    agent->control_len = 0;
    if (control.type == WIRE_CONTROL_HELLO_ACK) agent_at(agent, FAKE_AGENT_OPEN);
    if (control.type == WIRE_CONTROL_STANDBY) agent_at(agent, FAKE_AGENT_STANDBY);
    if (control.type == WIRE_CONTROL_SUPERSEDED) agent_at(agent, FAKE_AGENT_SUPERSEDED);
    if (control.type == WIRE_CONTROL_HELLO_ACK) atomic_store(&agent->seen.epoch, control.epoch);
    if (control.type == WIRE_CONTROL_SUPERSEDED) atomic_store(&agent->seen.superseded_by, control.epoch);
    if (control.type == WIRE_CONTROL_STANDBY) atomic_fetch_add(&agent->seen.standbys, 1);
    if (control.type == WIRE_CONTROL_DRAIN) atomic_fetch_add(&agent->seen.drains, 1);
}

static int agent_on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct fake_agent *agent = arg;
    struct answer *answer = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (frame->hd.type == WIRE_CONTROL_FRAME) agent_take_control(agent);
    if (frame->hd.type == NGHTTP2_GOAWAY) atomic_fetch_add(&agent->seen.goaways, 1);
    if (frame->hd.type == NGHTTP2_PING)
        atomic_fetch_add(frame->hd.flags & NGHTTP2_FLAG_ACK ? &agent->seen.pongs : &agent->seen.pings, 1);
    if (frame->hd.type == NGHTTP2_RST_STREAM) atomic_fetch_add(&agent->seen.resets, 1);
    if (!answer) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        agent_serve(agent, frame->hd.stream_id, answer);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !answer->is_reports) {
        answer->whole = true;
        if (answer->responded) nghttp2_session_resume_data(h2, frame->hd.stream_id);
    }
    return 0;
}

static void agent_take_acks(struct fake_agent *agent, struct answer *answer, const uint8_t *at, size_t len)
{
    // Acknowledgements are small and arrive whole in these tests.
    (void)answer;
    while (len) {
        struct wire_ack ack;
        size_t used = 0;
        if (wire_ack_decode(at, len, &ack, &used, NULL)) abort();
        atomic_store(&agent->seen.acked, ack.sequence);
        at += used;
        len -= used;
    }
}

static int agent_on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    (void)flags;
    struct fake_agent *agent = arg;
    struct answer *answer = nghttp2_session_get_stream_user_data(h2, id);
    if (!answer) return 0;
    if (!answer->is_reports) atomic_fetch_add(&agent->seen.received, len);
    if (answer->is_reports) agent_take_acks(agent, answer, at, len);
    if (!strcmp(answer->path, "/echo")) {
        strbuf_add(&answer->body, at, len);
        nghttp2_session_resume_data(h2, id);
    }
    return 0;
}

static int agent_on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    (void)code;
    (void)arg;
    struct answer *answer = nghttp2_session_get_stream_user_data(h2, id);
    if (!answer) return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    strbuf_finish(&answer->body);
    mem_free(answer);
    return 0;
}

static int agent_on_extension(nghttp2_session *h2, const nghttp2_frame_hd *hd, const uint8_t *at, size_t len, void *arg)
{
    (void)h2;
    (void)hd;
    struct fake_agent *agent = arg;
    if (agent->control_len + len > sizeof(agent->control)) abort();
    memcpy(agent->control + agent->control_len, at, len);
    agent->control_len += len;
    return 0;
}

static int agent_unpack(nghttp2_session *h2, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
    (void)h2;
    (void)hd;
    (void)arg;
    *payload = NULL;
    return 0;
}

static ssize_t agent_pack(nghttp2_session *h2, uint8_t *at, size_t cap, const nghttp2_frame *frame, void *arg)
{
    (void)h2;
    (void)frame;
    (void)arg;
    struct strbuf text;
    strbuf_init(&text, cap);
    if (wire_control_encode(&(struct wire_control){.type = WIRE_CONTROL_HELLO_ACK, .session = 1, .epoch = 1}, &text,
                            NULL))
        abort();
    size_t len = text.len;
    memcpy(at, text.at, len);
    strbuf_finish(&text);
    return (ssize_t)len;
}

static void agent_make_h2(struct fake_agent *agent)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_user_recv_extension_type(option, WIRE_CONTROL_FRAME);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, agent_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, agent_on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, agent_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, agent_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, agent_on_stream_close);
    nghttp2_session_callbacks_set_on_extension_chunk_recv_callback(callbacks, agent_on_extension);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, agent_unpack);
    nghttp2_session_callbacks_set_pack_extension_callback(callbacks, agent_pack);
    if (nghttp2_session_server_new2(&agent->h2, callbacks, agent, option)) abort();
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
                                               {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 200},
                                               {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, agent->options.window_bytes
                                                                                          ? agent->options.window_bytes
                                                                                          : STREAM_WINDOW_BYTES}};
    nghttp2_submit_settings(agent->h2, NGHTTP2_FLAG_NONE, settings, 4);
    nghttp2_session_set_local_window_size(agent->h2, NGHTTP2_FLAG_NONE, 0, 1 << 30);
    if (agent->options.bad_control) nghttp2_submit_extension(agent->h2, WIRE_CONTROL_FRAME, 0, 0, NULL);
}

// ---- the wire ------------------------------------------------------------------------------------------------

static bool agent_dial(struct fake_agent *agent)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)agent->options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    agent->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int receive_bytes = agent->options.receive_bytes;
    if (receive_bytes) setsockopt(agent->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    if (connect(agent->fd, (struct sockaddr *)&address, sizeof(address)) != 0) return false;
    socklen_t len = sizeof(address);
    if (getsockname(agent->fd, (struct sockaddr *)&address, &len) != 0) return false;
    agent->own_port = ntohs(address.sin_port);
    agent->tls = SSL_CTX_new(TLS_client_method());
    agent->ssl = SSL_new(agent->tls);
    SSL_set_fd(agent->ssl, agent->fd);
    return SSL_connect(agent->ssl) == 1;
}

static void agent_authorize(const struct fake_agent *agent, const uint8_t binding[WIRE_BINDING_BYTES], char *out,
                            size_t cap)
{
    const uint8_t other[WIRE_BINDING_BYTES] = {1};
    char sealed[TOKEN_TEXT_BYTES];
    if (agent->options.seal == FAKE_AGENT_SAYS_TOKEN) {
        snprintf(out, cap, "Bearer %s", agent->options.token);
        return;
    }
    if (wire_proof_seal(str_c(agent->options.token),
                        agent->options.seal == FAKE_AGENT_SEALS_FOR_ANOTHER ? other : binding, sealed, NULL))
        abort();
    snprintf(out, cap, "Culvert %s", sealed);
}

static bool agent_hears_proof(const struct fake_agent *agent, const uint8_t binding[WIRE_BINDING_BYTES],
                              struct str proof)
{
    struct token token;
    if (agent->options.seal == FAKE_AGENT_SAYS_TOKEN) return true;
    if (token_parse(str_c(agent->options.token), &token, NULL)) abort();
    return wire_proof_is_good(proof, token.secret_sha256, binding);
}

static bool agent_upgrade(struct fake_agent *agent, char *in, size_t *in_len)
{
    char key[WS_HANDSHAKE_KEY_BYTES];
    char authorization[128];
    ws_handshake_key(key);
    uint8_t binding[WIRE_BINDING_BYTES];
    if (!wire_proof_bind(agent->ssl, binding)) abort();
    agent_authorize(agent, binding, authorization, sizeof(authorization));
    const struct http_header headers[] = {{STR("authorization"), str_c(authorization)},
                                          {STR(WIRE_HEADER_INSTANCE_ID), str_c(agent->options.instance_id)},
                                          {STR(WIRE_HEADER_BOOT_ID), STR("boot-1")},
                                          {STR(WIRE_HEADER_AGENT_VERSION), STR("0.0")},
                                          {STR(WIRE_HEADER_RUNTIME), str_c(agent->options.runtime)}};
    const struct ws_handshake_request request = {.host = STR("localhost"),
                                                 .path = STR(WIRE_TUNNEL_PATH),
                                                 .subprotocol = STR(WIRE_TUNNEL_SUBPROTOCOL),
                                                 .headers = headers,
                                                 .header_count = 5};
    struct strbuf text;
    strbuf_init(&text, 4096);
    if (ws_handshake_write(&request, str_c(key), &text, NULL)) abort();
    bool sent = SSL_write(agent->ssl, text.at, (int)text.len) == (int)text.len;
    strbuf_finish(&text);
    size_t len = 0;
    while (sent && len < BUFFER_BYTES) {
        int n = SSL_read(agent->ssl, in + len, (int)(BUFFER_BYTES - len));
        if (n <= 0) return false;
        len += (size_t)n;
        struct ws_handshake_answer answer;
        size_t head = 0;
        enum error_code code =
            ws_handshake_read(in, len, str_c(key), STR(WIRE_TUNNEL_SUBPROTOCOL), &answer, &head, NULL);
        if (code == ERROR_AGAIN) continue;
        if (code) return false;
        bool proves = agent_hears_proof(agent, binding, str_c(answer.proof));
        atomic_store(&agent->seen.status, answer.status == 101 && !proves ? -1 : answer.status);
        *in_len = len - head;
        memmove(in, in + head, *in_len);
        return answer.status == 101 && proves;
    }
    return false;
}

static void agent_queue_frame(struct fake_agent *agent, enum ws_frame_opcode opcode, const uint8_t *at, size_t len)
{
    uint8_t mask[WS_FRAME_MASK_BYTES], header[WS_FRAME_HEADER_BYTES_MAX];
    ws_frame_masks_next(&agent->masks, mask);
    strbuf_add(&agent->out, header, ws_frame_header(header, opcode, len, mask));
    char *payload = strbuf_reserve(&agent->out, len);
    if (len) memcpy(payload, at, len);
    ws_frame_apply_mask((uint8_t *)payload, len, mask, 0);
    strbuf_commit(&agent->out, len);
}

static bool agent_feed(struct fake_agent *agent, uint8_t *at, size_t len)
{
    while (len) {
        struct ws_frame_event event;
        size_t used = 0;
        if (ws_frame_decode(&agent->decoder, at, len, &used, &event, NULL)) return false;
        at += used;
        len -= used;
        if (event.type == WS_FRAME_EVENT_CLOSE) return false;
        if (event.type == WS_FRAME_EVENT_PONG && event.len == 0) atomic_fetch_add(&agent->seen.words_heard, 1);
        if (event.type == WS_FRAME_EVENT_DATA && nghttp2_session_mem_recv(agent->h2, event.at, event.len) < 0)
            return false;
    }
    return true;
}

// One TLS record in two segments. A context of its own gathers what TLS makes of it.
static bool agent_send_in_parts(struct fake_agent *agent)
{
    BIO *memory = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(agent->ssl);
    BIO_up_ref(socket);
    BIO_up_ref(memory);
    SSL_set0_wbio(agent->ssl, memory);
    int sent = SSL_write(agent->ssl, agent->out.at, (int)agent->out.len);
    SSL_set0_wbio(agent->ssl, socket);
    char *record;
    size_t len = (size_t)BIO_get_mem_data(memory, &record), late = agent->options.late_bytes;
    bool good = sent == (int)agent->out.len && late <= LATE_BYTES_MAX && len > late &&
                send(agent->fd, record, len - late, MSG_NOSIGNAL) == (ssize_t)(len - late);
    if (good) memcpy(agent->late, record + len - late, late);
    BIO_free(memory);
    strbuf_clear(&agent->out);
    agent->late_at_ms = clock_mono_ms() + LATE_MS;
    agent->asks = false;
    return good;
}

static bool agent_send_late(struct fake_agent *agent)
{
    if (clock_mono_ms() < agent->late_at_ms) return true;
    size_t late = agent->options.late_bytes;
    agent->late_at_ms = 0;
    return send(agent->fd, agent->late, late, MSG_NOSIGNAL) == (ssize_t)late;
}

static bool agent_flush(struct fake_agent *agent)
{
    const uint8_t *frames;
    ssize_t n;
    while (agent->out.len < BUFFER_BYTES && (n = nghttp2_session_mem_send(agent->h2, &frames)) > 0)
        agent_queue_frame(agent, agent->options.text_frames ? WS_FRAME_TEXT : WS_FRAME_BINARY, frames, (size_t)n);
    bool says = atomic_exchange(&agent->says_now, false);
    agent->saying = agent->saying || says;
    if (says) agent_queue_frame(agent, WS_FRAME_BINARY, agent->options.says, agent->options.says_len);
    if (agent->late_at_ms) return agent_send_late(agent);
    if (agent->out.len == 0) return true;
    if (agent->asks && agent->options.late_bytes) return agent_send_in_parts(agent);
    int sent = SSL_write(agent->ssl, agent->out.at, (int)agent->out.len);
    if (sent <= 0) return SSL_get_error(agent->ssl, sent) == SSL_ERROR_WANT_WRITE;
    strbuf_drop_front(&agent->out, (size_t)sent);
    if (agent->saying && agent->out.len == 0) atomic_store(&agent->seen.said, true);
    return true;
}

static void agent_say_word(struct fake_agent *agent)
{
    uint64_t now_ms = clock_mono_ms();
    unsigned said = atomic_load(&agent->seen.words);
    if (!agent->options.words_each_ms || said > agent->options.words_max + agent->options.asks_more) return;
    bool again = said > agent->options.words_max;
    if (again && atomic_load(&agent->seen.pongs) < said - agent->options.words_max) return;
    if (!again && now_ms < agent->word_at_ms + agent->options.words_each_ms) return;
    agent->word_at_ms = now_ms;
    if (said < agent->options.words_max)
        agent_queue_frame(agent, WS_FRAME_PONG, NULL, 0);
    else
        nghttp2_submit_ping(agent->h2, NGHTTP2_FLAG_NONE, NULL);
    agent->asks = said >= agent->options.words_max;
    atomic_store(&agent->seen.words, said + 1);
}

static bool agent_turn(struct fake_agent *agent, char *in)
{
    agent_say_word(agent);
    if (!agent_flush(agent)) return false;
    struct pollfd poller = {.fd = agent->fd, .events = POLLIN};
    if (agent->out.len) poller.events |= POLLOUT;
    if (!SSL_pending(agent->ssl)) poll(&poller, 1, POLL_MS);
    if (atomic_load(&agent->mute)) return true;
    int n = SSL_read(agent->ssl, in, BUFFER_BYTES);
    if (n > 0) return agent_feed(agent, (uint8_t *)in, (size_t)n);
    int why = SSL_get_error(agent->ssl, n);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

static void *agent_main(void *arg)
{
    struct fake_agent *agent = arg;
    char *in = mem_alloc(BUFFER_BYTES);
    size_t in_len = 0;
    bool up = agent_dial(agent) && agent_upgrade(agent, in, &in_len);
    if (!up && atomic_load(&agent->seen.status) == 0) atomic_store(&agent->seen.status, -1);
    if (up) {
        fcntl(agent->fd, F_SETFL, O_NONBLOCK);
        SSL_set_mode(agent->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        agent_make_h2(agent);
        agent_at(agent, FAKE_AGENT_AT_ONCE);
        up = agent_feed(agent, (uint8_t *)in, in_len);
        while (up && !atomic_load(&agent->stop))
            up = agent_turn(agent, in);
    }
    atomic_store(&agent->seen.closed, true);
    mem_free(in);
    return NULL;
}

struct fake_agent *fake_agent_start(const struct fake_agent_options *options)
{
    struct fake_agent *agent = mem_zalloc(sizeof(*agent));
    agent->options = *options;
    agent->fd = -1;
    atomic_store(&agent->mute, options->mute);
    strbuf_init(&agent->out, 1 << 20);
    ws_frame_decoder_init(&agent->decoder, false);
    ws_frame_masks_init(&agent->masks);
    if (pthread_create(&agent->thread, NULL, agent_main, agent) != 0) abort();
    return agent;
}

const struct fake_agent_seen *fake_agent_seen(const struct fake_agent *agent)
{
    return &agent->seen;
}

void fake_agent_tell(struct fake_agent *agent)
{
    agent_at(agent, FAKE_AGENT_TOLD);
}

void fake_agent_mute(struct fake_agent *agent)
{
    atomic_store(&agent->mute, true);
}

int fake_agent_port(const struct fake_agent *agent)
{
    return agent->own_port;
}

static void agent_free_answers(nghttp2_session *h2)
{
    for (int32_t id = 1; id < 100000; id += 2) {
        struct answer *answer = nghttp2_session_get_stream_user_data(h2, id);
        if (!answer) continue;
        strbuf_finish(&answer->body);
        mem_free(answer);
    }
}

void fake_agent_stop(struct fake_agent *agent)
{
    atomic_store(&agent->stop, true);
    pthread_join(agent->thread, NULL);
    if (agent->h2) {
        agent_free_answers(agent->h2);
        nghttp2_session_del(agent->h2);
    }
    if (agent->ssl) SSL_free(agent->ssl);
    if (agent->tls) SSL_CTX_free(agent->tls);
    if (agent->fd >= 0) close(agent->fd);
    strbuf_finish(&agent->out);
    mem_free(agent);
}
