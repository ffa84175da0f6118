// report_http: the reporters of existing runtimes. POST /2.0/api/events with gzip bodies as their event reporter makes
// them (live, desired and Git manifest, commit), one request in flight a kept-alive connection; connections belong to
// runtimes and are opened before each run.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "histogram.h"
#include "report_load.h"

enum { BODY_MAX = 64 * 1024 * 1024, EVENTS_MAX = 256, TICK_MS = 1, FIRST_ADDRESS = 2 };

struct request {
    char *at;
    size_t len;
};

struct connection {
    struct client client;
    struct report_lane *lane;
    size_t report, sent; // under way
    size_t head_bytes, body_left;
    bool in_body;
    unsigned status;
    char head[CLIENT_HEAD_BYTES_MAX + 1];
};

// All connections of a run; made anew for each, because those that are idle for long are closed.
struct connections {
    struct connection *at;
    size_t count;
};

struct http {
    struct request *requests;
    size_t count, cap;
    z_stream deflate;
    struct strbuf body;
    struct connection **idle; // of the lane; the one that was used last comes first
    size_t idle_count;
};

static void http_open(struct report_load *load)
{
    if (load->tls) SSL_CTX_set_read_ahead(load->tls, 1); // a read for an answer, not two
    for (size_t i = 0; i < load->lane_count; i++) {
        struct http *http = load->lanes[i].way = mem_zalloc(sizeof *http);
        strbuf_init(&http->body, BODY_MAX);
        if (deflateInit2(&http->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            client_die("zlib");
    }
}

// ---- before the run ------------------------------------------------------------------------------------------------

static void add_member(struct strbuf *body, const char *name, struct str value)
{
    strbuf_addf(body, "\"%s\":", name);
    strbuf_add_json(body, value);
    strbuf_add_byte(body, ',');
}

static void add_base64(struct strbuf *body, struct str text)
{
    size_t room = (text.len + 2) / 3 * 4 + 1;
    char *to = strbuf_reserve(body, room);
    if (!to) client_die("a body that is too long");
    int len = EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)text.at, (int)text.len);
    strbuf_commit(body, (size_t)len);
}

static void write_body(struct report_lane *lane, const struct report_mix_object *object, struct strbuf *body)
{
    char time[CLOCK_RFC3339_BYTES];
    struct str desired = report_mix_desired(lane->mix);
    clock_format_rfc3339(lane->clock_ms, time);
    strbuf_clear(body);
    strbuf_addf(body, "{\"data\":{\"timestamp\":\"%s\",\"object\":\"", time);
    add_base64(body, object->manifest);
    strbuf_add_c(body, "\",\"source\":{");
    add_member(body, "desiredManifest", desired);
    add_member(body, "actualManifest", object->manifest);
    add_member(body, "gitManifest", desired);
    strbuf_addf(
        body,
        "\"repoURL\":\"https://git.example.com/shop/deploy.git\",\"path\":\"apps/shop/main.yaml\",\"revision\":"
        "\"0123456789abcdef0123456789abcdef01234567\",\"commitMessage\":\"Use the newer image\",\"commitAuthor\":"
        "\"Ada <ada@example.com>\",\"commitDate\":\"2026-11-20T10:00:00Z\",\"appName\":\"%.*s\",\"appNamespace\":"
        "\"%.*s\",\"appLabels\":{},\"syncStatus\":\"%.*s\",\"healthStatus\":\"%.*s\",\"syncStartedAt\":"
        "\"2026-11-20T10:00:00Z\",\"cluster\":\"https://kubernetes.default.svc\",\"historyId\":3,"
        "\"operationSyncRevision\":\"\",\"appUID\":\"\",\"appInstanceLabelKey\":\"app.kubernetes.io/instance\","
        "\"trackingMethod\":\"annotation\"},\"appVersions\":{}}}",
        STR_ARG(object->application_name), STR_ARG(object->application_ns), STR_ARG(object->sync_status),
        STR_ARG(object->health_status));
    if (body->overflow) client_die("a body that is too long");
}

static void http_add(struct report_lane *lane, const struct report_mix_object *object)
{
    struct http *http = lane->way;
    write_body(lane, object, &http->body);
    if (http->count == http->cap) {
        http->cap = http->cap ? http->cap * 2 : 1024;
        http->requests = mem_realloc(http->requests, http->cap * sizeof *http->requests);
    }
    size_t room = deflateBound(&http->deflate, http->body.len);
    char *packed = mem_alloc(room);
    http->deflate.next_in = (unsigned char *)http->body.at;
    http->deflate.avail_in = (unsigned)http->body.len;
    http->deflate.next_out = (unsigned char *)packed;
    http->deflate.avail_out = (unsigned)room;
    if (deflate(&http->deflate, Z_FINISH) != Z_STREAM_END) client_die("zlib");
    size_t packed_len = room - http->deflate.avail_out;
    deflateReset(&http->deflate);
    char head[1024];
    int head_len = snprintf(head, sizeof head,
                            "POST /2.0/api/events HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nContent-Type: "
                            "application/json\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n",
                            lane->load->client.authority, lane->token, packed_len);
    struct request *request = &http->requests[http->count++];
    request->len = (size_t)head_len + packed_len;
    request->at = mem_alloc(request->len);
    memcpy(request->at, head, (size_t)head_len);
    memcpy(request->at + head_len, packed, packed_len);
    mem_free(packed);
}

// ---- the run -------------------------------------------------------------------------------------------------------

static void want(struct connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(c->lane->load->epoll, EPOLL_CTL_MOD, c->client.fd, &event) != 0) client_die("epoll");
}

static void write_on(struct connection *c)
{
    const struct http *http = c->lane->way;
    const struct request *request = &http->requests[c->report];
    while (c->sent < request->len) {
        int n = SSL_write(c->client.ssl, request->at + c->sent, (int)(request->len - c->sent));
        if (n <= 0) {
            if (SSL_get_error(c->client.ssl, n) != SSL_ERROR_WANT_WRITE) client_die("a connection broke");
            want(c, EPOLLIN | EPOLLOUT);
            return;
        }
        c->sent += (size_t)n;
    }
}

static void start(struct report_lane *lane)
{
    struct http *http = lane->way;
    while (http->idle_count && lane->told < report_lane_allowed(lane)) {
        struct connection *c = http->idle[--http->idle_count];
        c->report = lane->told;
        c->sent = c->head_bytes = c->body_left = 0;
        c->in_body = false;
        report_lane_tell(lane);
        write_on(c);
    }
}

static void finish(struct connection *c)
{
    if (c->status / 100 != 2) {
        if (!c->lane->refused++) fprintf(stderr, "report_http: status %u: %.300s\n", c->status, c->head);
    }
    report_lane_durable(c->lane, c->report);
    struct http *http = c->lane->way;
    http->idle[http->idle_count++] = c;
    start(c->lane);
}

static void read_on(struct connection *c)
{
    char scratch[16 * 1024];
    for (;;) {
        char *at = c->in_body ? scratch : c->head + c->head_bytes;
        size_t room = c->in_body ? sizeof scratch : CLIENT_HEAD_BYTES_MAX - c->head_bytes;
        long n = client_receive(&c->client, at, room);
        if (n < 0) client_die("a connection broke");
        if (n == 0) return;
        if (c->in_body) {
            c->body_left -= (size_t)n < c->body_left ? (size_t)n : c->body_left;
        } else {
            struct client_answer answer;
            c->head_bytes += (size_t)n;
            c->head[c->head_bytes] = '\0';
            if (!client_parse_head(c->head, c->head_bytes, &answer)) continue;
            c->status = answer.status;
            c->in_body = true;
            c->body_left = answer.length - answer.body_bytes;
        }
        if (c->in_body && !c->body_left) {
            finish(c);
            return;
        }
    }
}

static bool is_done(const struct report_load *load)
{
    for (size_t i = 0; i < load->running; i++)
        if (load->lanes[i].durable < load->lanes[i].count) return false;
    return true;
}

static void http_begin(struct report_load *load)
{
    size_t each = load->window / load->running, count = each * load->running;
    struct connections *all = load->begun = mem_alloc(sizeof *all);
    *all = (struct connections){mem_array(count, sizeof *all->at), count};
    for (size_t i = 0; i < load->running; i++) {
        struct http *http = load->lanes[i].way;
        http->idle = mem_array(each, sizeof *http->idle);
        http->idle_count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct connection *c = &all->at[i];
        c->lane = &load->lanes[i % load->running];
        struct client_options options = load->client; // each runtime comes from an address of its own, as clusters do
        options.from = (uint8_t)(FIRST_ADDRESS + i % load->running);
        client_open(&c->client, &options, load->tls);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (fcntl(c->client.fd, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->client.fd, &event) != 0)
            client_die("epoll");
        struct http *http = c->lane->way;
        http->idle[http->idle_count++] = c;
    }
}

static void http_run(struct report_load *load)
{
    struct connections *all = load->begun;
    while (!is_done(load)) {
        struct epoll_event events[EVENTS_MAX];
        for (size_t i = 0; i < load->running; i++)
            start(&load->lanes[i]);
        int ready = epoll_wait(load->epoll, events, EVENTS_MAX, load->rate > 0 ? TICK_MS : 1000);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) {
                want(c, EPOLLIN);
                write_on(c);
            }
            if (events[i].events & EPOLLIN) read_on(c);
        }
    }
    for (size_t i = 0; i < all->count; i++)
        client_close(&all->at[i].client);
    mem_free(all->at);
    mem_free(all);
    for (size_t i = 0; i < load->running; i++) {
        struct http *http = load->lanes[i].way;
        mem_free(http->idle);
        http->idle = NULL;
        while (http->count)
            mem_free(http->requests[--http->count].at);
    }
}

static void http_close(struct report_load *load)
{
    for (size_t i = 0; i < load->lane_count; i++) {
        struct http *http = load->lanes[i].way;
        deflateEnd(&http->deflate);
        strbuf_finish(&http->body);
        mem_free(http->requests);
        mem_free(http);
    }
}

const struct report_way report_way_http = {
    .open = http_open, .add = http_add, .begin = http_begin, .run = http_run, .close = http_close};
