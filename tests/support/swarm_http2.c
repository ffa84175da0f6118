// The least HTTP/2 server (RFC 9113) that the platform can talk to. What it does not do: count its
// own sending windows, because answers are far smaller than a stream's first window and the
// platform tops the connection's up on receipt; and answer anything but calls, reports, PING and
// SETTINGS.
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "tests/support/swarm.h"
#include "tunnel/wire/bytes.h"
#include "tunnel/wire/handshake.h"
#include "tunnel/wire/identity.h"
#include "tunnel/wire/report.h"

enum {
    FRAME_HEAD_BYTES = 9,
    FRAME_BYTES_MAX = 16384,
    BLOCK_BYTES_MAX = 128 * 1024,
    CALL_BYTES_MAX = 14 * 1024, // of an answer: one DATA frame
    STREAMS_MAX = 1000,
    WINDOW_MORE = 0x7fffffff - 65535,
    FLAG_END_STREAM = 1,
    FLAG_ACK = 1,
    FLAG_END_HEADERS = 4,
    FLAG_PADDED = 8,
    FLAG_PRIORITY = 32,
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// A call whose request is still coming.
struct swarm_stream {
    struct swarm_stream *next;
    uint32_t id;
    uint64_t body_bytes;
    char method[16], path[2048], authority[300], request_id[200];
    struct str identity; // in `text`
    char identity_text[WIRE_IDENTITY_BYTES_MAX + 1];
    struct strbuf headers; // JSON: ["name","value"],...
};

// ---- frames that leave ---------------------------------------------------------------------------------------------

static void put_frame(struct swarm_link *link, size_t len, uint8_t type, uint8_t flags, uint32_t stream)
{
    bytes_put(&link->plain, len, 3);
    bytes_put(&link->plain, type, 1);
    bytes_put(&link->plain, flags, 1);
    bytes_put(&link->plain, stream, 4);
}

static void put_window(struct swarm_link *link, uint32_t stream, size_t more)
{
    put_frame(link, 4, NGHTTP2_WINDOW_UPDATE, 0, stream);
    bytes_put(&link->plain, more, 4);
}

static void put_setting(struct swarm_link *link, unsigned name, uint64_t value)
{
    bytes_put(&link->plain, name, 2);
    bytes_put(&link->plain, value, 4);
}

void swarm_http2_start(struct swarm_link *link)
{
    put_frame(link, 6 * 4, NGHTTP2_SETTINGS, 0, 0);
    put_setting(link, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0);
    put_setting(link, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX);
    put_setting(link, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1);
    put_setting(link, NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
    put_window(link, 0, WINDOW_MORE);
}

void swarm_http2_goaway(struct swarm_link *link)
{
    put_frame(link, 8, NGHTTP2_GOAWAY, 0, 0);
    bytes_put(&link->plain, 0x7fffffff, 4);
    bytes_put(&link->plain, NGHTTP2_NO_ERROR, 4);
}

// HPACK literals without indexing, names by static index (RFC 7541 section 6.2.2, appendix A).
static void put_head(struct swarm_link *link, uint32_t stream, int status, const char *type, size_t body_bytes)
{
    uint8_t block[128];
    size_t len = 0;
    block[len++] = 0x20; // the platform's decoder has no dynamic table and wants to hear that ours has none
    if (status == 200) {
        block[len++] = 0x88;
    } else {
        block[len++] = 0x08;
        block[len++] = 3;
        len += (size_t)snprintf((char *)block + len, 8, "%03d", status % 1000);
    }
    size_t type_len = strlen(type);
    block[len++] = 0x0f;
    block[len++] = 31 - 15; // content-type
    block[len++] = (uint8_t)type_len;
    memcpy(block + len, type, type_len);
    len += type_len;
    if (body_bytes) {
        char digits[24];
        int digits_len = snprintf(digits, sizeof(digits), "%zu", body_bytes);
        block[len++] = 0x0f;
        block[len++] = 28 - 15; // content-length
        block[len++] = (uint8_t)digits_len;
        memcpy(block + len, digits, (size_t)digits_len);
        len += (size_t)digits_len;
    }
    put_frame(link, len, NGHTTP2_HEADERS, FLAG_END_HEADERS, stream);
    strbuf_add(&link->plain, block, len);
}

static void put_data(struct swarm_link *link, uint32_t stream, const struct strbuf *body, bool end)
{
    put_frame(link, body->len, NGHTTP2_DATA, end ? FLAG_END_STREAM : 0, stream);
    strbuf_add(&link->plain, body->at, body->len);
}

// ---- reports -----------------------------------------------------------------------------------------------------

static void put_record(struct swarm_link *link, struct wire_report *report)
{
    struct strbuf record;
    strbuf_init(&record, FRAME_BYTES_MAX);
    report->sequence = ++link->http2.sequence;
    if (wire_report_encode(report, &record, NULL) == ERROR_NONE)
        put_data(link, link->http2.reports_stream, &record, false);
    strbuf_finish(&record);
}

static void put_cluster(struct swarm_link *link)
{
    put_record(link, &(struct wire_report){
                         .type = WIRE_REPORT_CLUSTER,
                         .observed_at_ms = clock_wall_ms(),
                         .manifest = STR("{\"name\":\"in-cluster\",\"server\":\"https://kubernetes.default.svc\"}"),
                     });
}

static void open_reports(struct swarm_link *link, uint32_t stream)
{
    uint64_t every_ms = link->swarm->report_every_ms;
    link->http2.reports_stream = stream;
    link->http2.report_at_ms = every_ms ? clock_mono_ms() + id_random_below(every_ms) : 0;
    swarm_count(link->swarm, SWARM_REPORT_STREAMS);
    put_head(link, stream, 200, "application/octet-stream", 0);
    put_record(link, &(struct wire_report){.type = WIRE_REPORT_HELLO, .boot_id = str_c(link->boot_id)});
    put_record(link, &(struct wire_report){.type = WIRE_REPORT_SNAPSHOT_BEGIN});
    put_record(link, &(struct wire_report){.type = WIRE_REPORT_SNAPSHOT_END});
}

static bool take_acks(struct swarm_link *link, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    if (!strbuf_add(&http2->acks, at, len)) return false;
    size_t done = 0;
    while (done < http2->acks.len) {
        struct wire_ack ack;
        size_t used = 0;
        enum error_code code =
            wire_ack_decode((const uint8_t *)http2->acks.at + done, http2->acks.len - done, &ack, &used, NULL);
        if (code == ERROR_AGAIN) break;
        if (code != ERROR_NONE || ack.sequence > http2->sequence) return false;
        swarm_count(link->swarm, SWARM_REPORTS_ACKED);
        done += used;
    }
    strbuf_drop_front(&http2->acks, done);
    strbuf_shrink(&http2->acks);
    return true;
}

void swarm_http2_tick(struct swarm_link *link, uint64_t now_ms)
{
    struct swarm_http2 *http2 = &link->http2;
    if (!http2->reports_stream || !http2->report_at_ms || now_ms < http2->report_at_ms) return;
    http2->report_at_ms += link->swarm->report_every_ms;
    put_cluster(link);
    swarm_link_flush(link);
}

// ---- calls ---------------------------------------------------------------------------------------------------------

static struct swarm_stream **find_stream(struct swarm_http2 *http2, uint32_t id)
{
    struct swarm_stream **at = &http2->streams;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void drop_stream(struct swarm_stream **at)
{
    struct swarm_stream *stream = *at;
    if (!stream) return;
    *at = stream->next;
    strbuf_finish(&stream->headers);
    mem_free(stream);
}

// Whose call this is, signed by the platform with this runtime's own key: a call for another
// runtime fails here.
static bool check_identity(const struct swarm_agent *agent, const struct swarm_stream *stream,
                           struct wire_identity *out)
{
    return wire_identity_verify(stream->identity, agent->token.secret_sha256, str_c(agent->account_id),
                                str_c(agent->runtime), clock_wall_ms(), out, NULL) == ERROR_NONE;
}

// HMAC-SHA256 over what was asked, under the SHA-256 of the token's secret: no one else can have
// answered.
static void sign(const struct swarm_agent *agent, const struct swarm_stream *stream, char out[ID_SHA256_HEX_BYTES])
{
    struct strbuf text;
    uint8_t mac[ID_SHA256_BYTES];
    strbuf_init(&text, 8192);
    strbuf_addf(&text, "%s\n%s\n%s\n%s", agent->runtime, stream->method, stream->path, stream->request_id);
    id_hmac_sha256(str_of((const char *)agent->token.secret_sha256, ID_SHA256_BYTES), text.at, text.len, mac);
    format_hex(mac, sizeof(mac), out);
    strbuf_finish(&text);
}

static void add_member(struct strbuf *body, const char *name, const char *value)
{
    strbuf_addf(body, ",\"%s\":", name);
    strbuf_add_json(body, str_c(value));
}

static void answer(struct swarm_link *link, struct swarm_stream *stream)
{
    struct swarm_agent *agent = link->agent;
    struct wire_identity identity = {.user_id = ""};
    bool allowed = check_identity(agent, stream, &identity);
    char signature[ID_SHA256_HEX_BYTES];
    struct strbuf body;
    sign(agent, stream, signature);
    strbuf_init(&body, CALL_BYTES_MAX);
    strbuf_addf(&body, "{\"epoch\":%llu,\"body_bytes\":%llu", (unsigned long long)link->epoch,
                (unsigned long long)stream->body_bytes);
    add_member(&body, "runtime", agent->runtime);
    add_member(&body, "instance", agent->instance_id);
    add_member(&body, "boot", link->boot_id);
    add_member(&body, "method", stream->method);
    add_member(&body, "authority", stream->authority);
    add_member(&body, "path", stream->path);
    add_member(&body, "id", stream->request_id);
    add_member(&body, "user", identity.user_id);
    add_member(&body, "signature", signature);
    strbuf_addf(&body, ",\"headers\":[%.*s]}", STR_ARG(strbuf_str(&stream->headers)));
    int status = !allowed ? 403 : body.overflow ? 431 : 200;
    swarm_count(link->swarm, allowed ? SWARM_CALLS : SWARM_CALLS_REFUSED);
    if (status != 200) {
        strbuf_clear(&body);
        body.overflow = false;
        strbuf_addf(&body, "{\"refused\":%d}", status);
    }
    put_head(link, stream->id, status, "application/json", body.len);
    put_data(link, stream->id, &body, true);
    strbuf_finish(&body);
    drop_stream(find_stream(&link->http2, stream->id));
}

static void copy(char *to, size_t cap, struct str from)
{
    snprintf(to, cap, "%.*s", STR_ARG(from));
}

static void take_header(struct swarm_stream *stream, struct str name, struct str value)
{
    if (str_eq(name, STR(":method"))) {
        copy(stream->method, sizeof(stream->method), value);
    } else if (str_eq(name, STR(":path"))) {
        copy(stream->path, sizeof(stream->path), value);
    } else if (str_eq(name, STR(":authority"))) {
        copy(stream->authority, sizeof(stream->authority), value);
    } else if (str_eq(name, STR(WIRE_HEADER_IDENTITY))) {
        copy(stream->identity_text, sizeof(stream->identity_text), value);
        stream->identity = str_c(stream->identity_text);
    } else if (name.len && name.at[0] != ':') {
        if (str_eq(name, STR("x-request-id"))) copy(stream->request_id, sizeof(stream->request_id), value);
        strbuf_addf(&stream->headers, "%s[", stream->headers.len ? "," : "");
        strbuf_add_json(&stream->headers, name);
        strbuf_add_byte(&stream->headers, ',');
        strbuf_add_json(&stream->headers, value);
        strbuf_add_byte(&stream->headers, ']');
    }
}

// ---- frames that arrive
// ----------------------------------------------------------------------------------------------

static bool read_block(struct swarm_link *link, struct swarm_stream *stream, const uint8_t *at, size_t len)
{
    nghttp2_hd_inflater *inflater = link->swarm->inflater;
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &field, &flags, at, len, 1);
        if (n < 0) return false;
        at += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            take_header(stream, str_of((char *)field.name, field.namelen), str_of((char *)field.value, field.valuelen));
        if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && len == 0) break;
    }
    return nghttp2_hd_inflate_end_headers(inflater) == 0;
}

static bool take_block(struct swarm_link *link, uint32_t id, bool end, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    struct swarm_stream *stream = mem_zalloc(sizeof(*stream));
    stream->id = id;
    strbuf_init(&stream->headers, CALL_BYTES_MAX);
    bool known = id == http2->reports_stream || *find_stream(http2, id); // then these are trailers
    bool ok = read_block(link, stream, at, len);
    bool reports = strcmp(stream->path, WIRE_REPORTS_PATH) == 0 && strcmp(stream->authority, "culvert") == 0;
    if (!ok || known || reports) {
        drop_stream(&stream);
        if (ok && reports && !known) open_reports(link, id);
    } else {
        stream->next = http2->streams;
        http2->streams = stream;
    }
    struct swarm_stream *ended = end ? *find_stream(http2, id) : NULL;
    if (ended) answer(link, ended);
    return ok;
}

static bool take_headers(struct swarm_link *link, uint8_t flags, uint32_t id, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    if (flags & FLAG_PADDED) {
        if (!len || at[0] >= len) return false;
        len -= 1u + at[0];
        at++;
    }
    if (flags & FLAG_PRIORITY) {
        if (len < 5) return false;
        at += 5;
        len -= 5;
    }
    if (flags & FLAG_END_HEADERS) return take_block(link, id, flags & FLAG_END_STREAM, at, len);
    http2->block_stream = id;
    http2->block_ends_stream = flags & FLAG_END_STREAM;
    return strbuf_add(&http2->block, at, len);
}

static bool take_continuation(struct swarm_link *link, uint8_t flags, uint32_t id, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    if (id != http2->block_stream || !strbuf_add(&http2->block, at, len)) return false;
    if (!(flags & FLAG_END_HEADERS)) return true;
    http2->block_stream = 0;
    bool ok = take_block(link, id, http2->block_ends_stream, (const uint8_t *)http2->block.at, http2->block.len);
    strbuf_clear(&http2->block);
    strbuf_shrink(&http2->block);
    return ok;
}

static bool take_data(struct swarm_link *link, uint8_t flags, uint32_t id, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    if (len) {
        put_window(link, 0, len);
        if (!(flags & FLAG_END_STREAM)) put_window(link, id, len);
    }
    if (flags & FLAG_PADDED) {
        if (!len || at[0] >= len) return false;
        len -= 1u + at[0];
        at++;
    }
    if (id == http2->reports_stream) {
        if (flags & FLAG_END_STREAM) http2->reports_stream = 0;
        return take_acks(link, at, len);
    }
    struct swarm_stream *stream = *find_stream(http2, id);
    if (!stream) return true;
    stream->body_bytes += len;
    if (flags & FLAG_END_STREAM) answer(link, stream);
    return true;
}

static bool take_control(struct swarm_link *link, const uint8_t *at, size_t len)
{
    struct wire_control control;
    enum error_code code = wire_control_decode(at, len, &control, NULL);
    if (code == ERROR_NOT_FOUND) return true;
    if (code != ERROR_NONE) return false;
    if (control.type == WIRE_CONTROL_HELLO_ACK && link->phase == SWARM_IN_HELLO)
        swarm_agent_on_hello(link->agent, link, control.epoch);
    if (control.type == WIRE_CONTROL_DRAIN) swarm_agent_on_drain(link->agent, link, control.spread_ms);
    if (control.type == WIRE_CONTROL_SUPERSEDED) swarm_agent_on_superseded(link->agent, link);
    return true;
}

static void take_reset(struct swarm_http2 *http2, uint32_t id)
{
    if (id == http2->reports_stream) http2->reports_stream = 0;
    drop_stream(find_stream(http2, id));
}

static bool take_frame(struct swarm_link *link, uint8_t type, uint8_t flags, uint32_t id, const uint8_t *at, size_t len)
{
    enum { GOAWAY_SPREAD_MS = 1000 };
    switch (type) {
    case NGHTTP2_DATA: return take_data(link, flags, id, at, len);
    case NGHTTP2_HEADERS: return take_headers(link, flags, id, at, len);
    case NGHTTP2_CONTINUATION: return take_continuation(link, flags, id, at, len);
    case NGHTTP2_RST_STREAM: take_reset(&link->http2, id); return true;
    case NGHTTP2_SETTINGS:
        if (!(flags & FLAG_ACK)) put_frame(link, 0, NGHTTP2_SETTINGS, FLAG_ACK, 0);
        return true;
    case NGHTTP2_PING:
        if (flags & FLAG_ACK || len != 8) return len == 8;
        swarm_count(link->swarm, SWARM_PINGS);
        put_frame(link, 8, NGHTTP2_PING, FLAG_ACK, 0);
        return strbuf_add(&link->plain, at, len);
    case NGHTTP2_GOAWAY:
        if (len < 8 || bytes_get(at + 4, 4) != NGHTTP2_NO_ERROR) {
            fprintf(stderr, "GOAWAY with error %llu: %.*s\n", len < 8 ? 0ull : (unsigned long long)bytes_get(at + 4, 4),
                    len < 8 ? 0 : (int)(len - 8), (const char *)at + 8);
            return false;
        }
        swarm_agent_on_drain(link->agent, link, GOAWAY_SPREAD_MS);
        return true;
    case WIRE_CONTROL_FRAME: return id != 0 || take_control(link, at, len);
    default: return true;
    }
}

static bool take_frames(struct swarm_link *link, const uint8_t *at, size_t len, size_t *out_used)
{
    size_t used = 0;
    while (len - used >= FRAME_HEAD_BYTES && link->fd >= 0) {
        const uint8_t *head = at + used;
        size_t payload = (size_t)bytes_get(head, 3);
        if (payload > FRAME_BYTES_MAX) return false;
        if (len - used < FRAME_HEAD_BYTES + payload) break;
        uint32_t id = (uint32_t)bytes_get(head + 5, 4) & 0x7fffffffu;
        if (!take_frame(link, head[3], head[4], id, head + FRAME_HEAD_BYTES, payload)) return false;
        used += FRAME_HEAD_BYTES + payload;
    }
    *out_used = used;
    return true;
}

bool swarm_http2_feed(struct swarm_link *link, const uint8_t *at, size_t len)
{
    struct swarm_http2 *http2 = &link->http2;
    for (; http2->preface_seen < sizeof(preface) - 1 && len; at++, len--)
        if (*at != (uint8_t)preface[http2->preface_seen++]) return false;
    size_t used = 0;
    if (http2->in.len == 0) {
        if (!take_frames(link, at, len, &used)) return false;
        return used == len || strbuf_add(&http2->in, at + used, len - used);
    }
    if (!strbuf_add(&http2->in, at, len) || !take_frames(link, (uint8_t *)http2->in.at, http2->in.len, &used))
        return false;
    strbuf_drop_front(&http2->in, used);
    strbuf_shrink(&http2->in);
    return true;
}

void swarm_http2_init(struct swarm_http2 *http2)
{
    strbuf_init(&http2->in, 128 * 1024);
    strbuf_init(&http2->block, BLOCK_BYTES_MAX);
    strbuf_init(&http2->acks, 64 * 1024);
}

void swarm_http2_finish(struct swarm_http2 *http2)
{
    while (http2->streams)
        drop_stream(&http2->streams);
    strbuf_finish(&http2->in);
    strbuf_finish(&http2->block);
    strbuf_finish(&http2->acks);
}
