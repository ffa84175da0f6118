#include "fake_broker.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tunnel/broker.h"

struct tunnel_call {
    struct tunnel_call *next;
    struct loop *loop;
    uint64_t id;
    struct exchange_events events;
    void *arg;
    char path[256];
    bool websocket, expects, request_ended, answer_ended, head_sent, failed;
    uint64_t to_send, in_flight, body_bytes;
};

static struct {
    struct loop *loop;
    struct tunnel_call *first;
    uint64_t last_id;
    bool sink_open;
    atomic_uint node;
    pthread_mutex_t mutex; // guards seen
    pthread_cond_t changed;
    struct fake_broker_seen seen;
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

enum { WINDOW = 64 * 1024, PIECE = 16 * 1024 };

static void note_changed(void)
{
    pthread_cond_broadcast(&fake.changed);
}

// A fuzz target turns its loop itself.
static struct loop *this_loop(void)
{
    struct loop *loop = loop_of_thread();
    return loop ? loop : fake.loop;
}

static struct tunnel_call *find(uint64_t id)
{
    for (struct tunnel_call *call = fake.first; call; call = call->next)
        if (call->id == id) return call;
    return NULL;
}

static void forget(struct tunnel_call *call)
{
    struct tunnel_call **link = &fake.first;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
}

struct later {
    uint64_t id;
    void (*run)(struct tunnel_call *call, struct str data);
    char *data;
    size_t len;
};

static void run_later(void *arg)
{
    struct later *later = arg;
    struct tunnel_call *call = find(later->id);
    if (call) later->run(call, str_of(later->data, later->len));
    mem_free(later->data);
    mem_free(later);
}

static void post(struct tunnel_call *call, void (*run)(struct tunnel_call *call, struct str data), struct str data)
{
    struct later *later = mem_alloc(sizeof *later);
    *later = (struct later){call->id, run, mem_dup(data.at ? data.at : "", data.len), data.len};
    loop_post(call->loop, run_later, later);
}

// ---- answers -------------------------------------------------------------------------------------------------

static void end_if_over(struct tunnel_call *call)
{
    if (!call->answer_ended || !call->request_ended) return;
    forget(call);
    call->events.on_end(call->arg);
    mem_free(call);
}

static void end_answer(struct tunnel_call *call)
{
    call->answer_ended = true;
    end_if_over(call);
}

static void send_data(struct tunnel_call *call, struct str data)
{
    pthread_mutex_lock(&fake.mutex);
    fake.seen.sent_bytes += data.len;
    fake.seen.unconsumed_bytes += data.len;
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
    call->in_flight += data.len;
    char *copy = mem_dup(data.at, data.len);
    call->events.on_data(call->arg, (const uint8_t *)copy, data.len);
    mem_free(copy);
}

static void send_head(struct tunnel_call *call, int status, const struct http_header *headers, size_t count)
{
    call->head_sent = true;
    call->events.on_head(call->arg, status, headers, count);
}

static void pump(struct tunnel_call *call, struct str none)
{
    static char piece[PIECE];
    (void)none;
    memset(piece, 'x', sizeof piece);
    uint64_t id = call->id;
    while (call->to_send > 0 && call->in_flight < WINDOW) {
        size_t len = call->to_send < PIECE ? (size_t)call->to_send : PIECE;
        call->to_send -= len;
        send_data(call, str_of(piece, len));
        if (!find(id)) return;
    }
    if (call->to_send == 0 && !call->answer_ended) end_answer(call);
}

static void answer_text(struct tunnel_call *call, struct str type, struct str text, const char *length)
{
    const struct http_header headers[] = {{STR("content-type"), type}, {STR("content-length"), str_c(length)}};
    uint64_t id = call->id;
    send_head(call, 200, headers, length ? 2 : 1);
    if (find(id)) send_data(call, text);
}

static void answer_hostile(struct tunnel_call *call)
{
    static const struct http_header headers[] = {
        {STR("set-cookie"), STR("a=b")},
        {STR("nel"), STR("{}")},
        {STR("link"), STR("</x>; rel=preload")},
        {STR("refresh"), STR("0")},
        {STR("content-security-policy"), STR("default-src *")},
        {STR("clear-site-data"), STR("\"*\"")},
        {STR("strict-transport-security"), STR("max-age=0")},
        {STR("alt-svc"), STR("h3=\":1\"")},
        {STR("connection"), STR("close")},
        {STR("transfer-encoding"), STR("chunked")},
        {STR("keep-alive"), STR("timeout=1")},
        {STR("x-request-id"), STR("theirs")},
        {STR("x-bad"), STR("a\r\nset-cookie: c=d")},
        {STR("etag"), STR("\"1\"\r\nset-cookie: e=f")},
        {STR("location"), STR("https://evil.example/")},
        {STR("content-type"), STR("text/html")},
    };
    send_head(call, 200, headers, sizeof headers / sizeof *headers);
}

// As an agent tells that the service did not switch: its own status beside.
static void answer_declined(struct tunnel_call *call)
{
    const struct http_header headers[] = {{STR("culvert-status"), str_c(call->path + strlen("/declined/"))},
                                          {STR("content-length"), STR("5")}};
    uint64_t id = call->id;
    send_head(call, 502, headers, 2);
    if (find(id)) send_data(call, STR("plain"));
    if (find(id)) end_answer(call);
}

static void answer(struct tunnel_call *call, struct str none)
{
    struct str path = str_c(call->path);
    uint64_t id = call->id;
    (void)none;
    if (call->websocket) {
        static const struct http_header headers[] = {{STR("sec-websocket-protocol"), STR("chat")}};
        bool refused = str_eq(path, STR("/refuse"));
        if (str_eq(path, STR("/tcp/ends-first"))) {
            send_head(call, 200, NULL, 0);
            if (find(id)) send_data(call, STR("bye"));
            if (!find(id)) return;
            call->answer_ended = true;
            call->events.on_half_end(call->arg);
            return;
        }
        if (str_starts(path, STR("/declined/"))) {
            answer_declined(call);
            return;
        }
        send_head(call, refused ? 403 : 200, headers, 1);
        if (refused && find(id)) end_answer(call);
    } else if (str_starts(path, STR("/webhooks/fail/"))) {
        forget(call);
        call->events.on_fail(call->arg, (enum tunnel_cause)atoi(call->path + 15), "as the test asked");
        mem_free(call);
    } else if (str_eq(path, STR("/hello")) || str_eq(path, STR("/early")) || str_starts(path, STR("/webhooks/"))) {
        answer_text(call, STR("text/plain"), STR("hello"), "5");
        if (find(id)) end_answer(call);
    } else if (str_eq(path, STR("/chunked"))) {
        static const struct http_header trailers[] = {{STR("grpc-status"), STR("0")}, {STR("set-cookie"), STR("a=b")}};
        answer_text(call, STR("text/plain"), STR("one"), NULL);
        send_data(call, STR("two"));
        call->events.on_trailers(call->arg, trailers, 2);
        end_answer(call);
    } else if (str_eq(path, STR("/echo"))) {
        send_head(call, 200, NULL, 0);
    } else if (str_starts(path, STR("/big/"))) {
        call->to_send = strtoull(call->path + 5, NULL, 10);
        send_head(call, 200, NULL, 0);
        pump(call, STR_EMPTY);
    } else if (str_eq(path, STR("/head-only"))) {
        send_head(call, 200, NULL, 0);
    } else if (str_eq(path, STR("/short"))) {
        answer_text(call, STR("text/plain"), STR("short"), "10");
        end_answer(call);
    } else if (str_eq(path, STR("/long"))) {
        answer_text(call, STR("text/plain"), STR("far too long"), "3");
    } else if (str_eq(path, STR("/hostile"))) {
        answer_hostile(call);
        if (find(id)) end_answer(call);
    } else if (str_starts(path, STR("/status/"))) {
        send_head(call, atoi(call->path + 8), NULL, 0);
        if (find(id)) end_answer(call);
    } else if (str_starts(path, STR("/fail/"))) {
        forget(call);
        call->events.on_fail(call->arg, (enum tunnel_cause)atoi(call->path + 6), "as the test asked");
        mem_free(call);
    } else if (str_eq(path, STR("/interim"))) {
        call->events.on_info(call->arg, 102);
        call->events.on_info(call->arg, 103);
        answer_text(call, STR("text/plain"), STR("hello"), "5");
        end_answer(call);
    } else if (str_eq(path, STR("/events"))) {
        answer_text(call, STR("text/event-stream"), STR("data: 1\n\n"), NULL);
    } else if (str_eq(path, STR("/sse-flood"))) {
        static const struct http_header type = {STR("content-type"), STR("text/event-stream")};
        call->to_send = UINT64_MAX;
        send_head(call, 200, &type, 1);
        pump(call, STR_EMPTY);
    }
}

static void answer_continue(struct tunnel_call *call, struct str none)
{
    (void)none;
    call->events.on_info(call->arg, 100);
}

// ---- tunnel/broker.h -----------------------------------------------------------------------------------------

static void note_request(const struct tunnel_request *request)
{
    struct fake_broker_seen *seen = &fake.seen;
    size_t len = 0;
    pthread_mutex_lock(&fake.mutex);
    seen->loop = loop_index(this_loop());
    seen->opened++;
    snprintf(seen->account, sizeof seen->account, "%.*s", STR_ARG(request->account_id));
    snprintf(seen->runtime, sizeof seen->runtime, "%.*s", STR_ARG(request->runtime));
    snprintf(seen->method, sizeof seen->method, "%.*s", STR_ARG(request->method));
    snprintf(seen->path, sizeof seen->path, "%.*s", STR_ARG(request->path));
    snprintf(seen->protocol, sizeof seen->protocol, "%.*s", STR_ARG(request->protocol));
    snprintf(seen->user, sizeof seen->user, "%s", request->user_id ? request->user_id : "(nobody)");
    seen->headers[0] = '\0';
    for (size_t i = 0; i < request->header_count && len < sizeof seen->headers - 1; i++)
        len += (size_t)snprintf(seen->headers + len, sizeof seen->headers - len, "%.*s: %.*s\n",
                                STR_ARG(request->headers[i].name), STR_ARG(request->headers[i].value));
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
}

struct tunnel_call *tunnel_call_open(struct tunnel_node *node, const struct tunnel_request *request,
                                     const struct exchange_events *events, void *arg)
{
    struct tunnel_call *call = mem_zalloc(sizeof *call);
    struct str path = request->path;
    struct str only_path;
    (void)node;
    (void)str_cut(&path, '?', &only_path);
    call->loop = this_loop();
    call->id = ++fake.last_id;
    call->next = fake.first;
    fake.first = call;
    call->events = *events;
    call->arg = arg;
    snprintf(call->path, sizeof call->path, "%.*s", STR_ARG(only_path));
    call->websocket = request->protocol.len > 0;
    call->request_ended = request->end_stream;
    note_request(request);
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq(request->headers[i].name, STR("expect"))) call->expects = true;
    if (call->expects && str_eq(only_path, STR("/sink"))) post(call, answer_continue, STR_EMPTY);
    if (str_eq(only_path, STR("/sink")) && call->request_ended)
        post(call, answer, STR_EMPTY);
    else if (!str_eq(only_path, STR("/hang")) && !str_eq(only_path, STR("/sink")))
        post(call, answer, STR_EMPTY);
    return call;
}

static bool echoes(const struct tunnel_call *call)
{
    if (strcmp(call->path, "/echo") == 0) return true;
    return call->websocket && !call->answer_ended && strcmp(call->path, "/tcp/silent") != 0;
}

unsigned tunnel_call_node(const struct tunnel_call *call)
{
    (void)call;
    return atomic_load(&fake.node);
}

bool tunnel_call_write(struct tunnel_call *call, const void *at, size_t len)
{
    call->body_bytes += len;
    pthread_mutex_lock(&fake.mutex);
    fake.seen.body_bytes += len;
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
    if (echoes(call)) post(call, send_data, str_of(at, len));
    return strcmp(call->path, "/sink") != 0 || fake.sink_open;
}

static void finish_sink(struct tunnel_call *call, struct str none)
{
    char text[32], length[8];
    (void)none;
    snprintf(text, sizeof text, "%llu", (unsigned long long)call->body_bytes);
    snprintf(length, sizeof length, "%zu", strlen(text));
    answer_text(call, STR("text/plain"), str_c(text), length);
    end_answer(call);
}

static void finish_echo(struct tunnel_call *call, struct str none)
{
    (void)none;
    end_answer(call);
}

void tunnel_call_end(struct tunnel_call *call)
{
    call->request_ended = true;
    pthread_mutex_lock(&fake.mutex);
    fake.seen.ended++;
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
    if (strcmp(call->path, "/sink") == 0) post(call, finish_sink, STR_EMPTY);
    if (echoes(call) || call->answer_ended) post(call, finish_echo, STR_EMPTY);
}

void tunnel_call_trailers(struct tunnel_call *call, const struct http_header *headers, size_t count)
{
    pthread_mutex_lock(&fake.mutex);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(fake.seen.trailers);
        snprintf(fake.seen.trailers + used, sizeof(fake.seen.trailers) - used, "%.*s: %.*s\n", STR_ARG(headers[i].name),
                 STR_ARG(headers[i].value));
    }
    pthread_mutex_unlock(&fake.mutex);
    tunnel_call_end(call);
}

void tunnel_call_consumed(struct tunnel_call *call, size_t len)
{
    call->in_flight -= len;
    pthread_mutex_lock(&fake.mutex);
    fake.seen.unconsumed_bytes -= len;
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
    if (call->to_send > 0) post(call, pump, STR_EMPTY);
}

void tunnel_call_cancel(struct tunnel_call *call)
{
    pthread_mutex_lock(&fake.mutex);
    fake.seen.cancelled++;
    note_changed();
    pthread_mutex_unlock(&fake.mutex);
    forget(call);
    mem_free(call);
}

// ---- the test's side -----------------------------------------------------------------------------------------

void fake_broker_start(struct loop *loop)
{
    fake.loop = loop;
    fake.sink_open = true;
    fake_broker_set_node(0);
    memset(&fake.seen, 0, sizeof fake.seen);
}

void fake_broker_stop(void)
{
    if (!fake.first) return;
    fprintf(stderr, "a call was left open: %s\n", fake.first->path);
    abort();
}

struct fake_broker_seen fake_broker_seen(void)
{
    pthread_mutex_lock(&fake.mutex);
    struct fake_broker_seen seen = fake.seen;
    pthread_mutex_unlock(&fake.mutex);
    return seen;
}

static void toggle_sink(void *arg)
{
    (void)arg;
    fake.sink_open = !fake.sink_open;
    if (!fake.sink_open) return;
    for (struct tunnel_call *call = fake.first, *next; call; call = next) {
        next = call->next;
        call->events.on_room(call->arg);
    }
}

void fake_broker_toggle_sink(void)
{
    loop_post(fake.loop, toggle_sink, NULL);
}

void fake_broker_set_node(unsigned index)
{
    atomic_store(&fake.node, index);
}

void fake_broker_wait(bool (*holds)(const struct fake_broker_seen *seen))
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FAKE_BROKER_WAIT_MS / 1000;
    pthread_mutex_lock(&fake.mutex);
    while (!holds(&fake.seen)) {
        if (pthread_cond_timedwait(&fake.changed, &fake.mutex, &until) == ETIMEDOUT) {
            fprintf(stderr,
                    "the condition never came true: opened %u ended %u cancelled %u body %llu sent %llu credit %llu\n",
                    fake.seen.opened, fake.seen.ended, fake.seen.cancelled, (unsigned long long)fake.seen.body_bytes,
                    (unsigned long long)fake.seen.sent_bytes, (unsigned long long)fake.seen.unconsumed_bytes);
            abort();
        }
    }
    pthread_mutex_unlock(&fake.mutex);
}
