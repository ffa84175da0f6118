#include "api/live/live_stream.h"

#include <assert.h>
#include <string.h>

#include "api/graphql/execution.h"
#include "api/http/request.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"

enum {
    PIECE_BYTES_MAX = 72 * 1024 * 1024, // an event, which is bounded by what an answer may be
    REQUEST_BYTES_MAX = 96 * 1024 * 1024,
    FAILED_WAIT_MS = 1000,
    FAILURES_MAX = 10,
    REFRESH_TURN = 8, // each so many-th statement refreshes, however many changes wait
    RETRY_MS = 1000,
};

// ---- life ---------------------------------------------------------------------------------------

// Whom live.streams_per_user_max counts: a user, or a runtime.
static struct str user_of(const struct live_stream *stream)
{
    const struct api_principal *who = &stream->principal;
    return str_c(who->kind == PRINCIPAL_USER ? who->user_id : who->runtime_id);
}

// Of the limits, and of those whose credential is looked at.
static void give_place(struct live_stream *stream)
{
    const struct live_options *options = &stream->live->options;
    if (stream->watched) options->unwatch(stream->watched);
    stream->watched = NULL;
    if (!stream->is_counted) return;
    stream->is_counted = false;
    if (options->streams) quota_give(options->streams);
    connection_limiter_leave(options->accounts, str_c(stream->principal.account_id));
    connection_limiter_leave(options->users, user_of(stream));
    metric_move(stream->live->open, -1);
}

static void stream_free(struct live_stream *stream)
{
    assert(!stream->is_reading && !stream->out);
    give_place(stream);
    list_remove(&stream->entry);
    list_remove(&stream->due);
    timer_finish(&stream->timer);
    live_window_finish(&stream->window);
    strbuf_finish(&stream->piece);
    json_decref(stream->variables);
    access_rules_unref(stream->rules);
    mem_free(stream->hint);
    mem_free(stream->query);
    mem_free(stream->operation_name);
    stream->live->count--;
    mem_free(stream);
}

// Nothing goes to the client any more; freed once no statement is under way.
static void close_stream(struct live_stream *stream, bool is_cut)
{
    struct api_stream *out = stream->out;
    stream->out = NULL;
    stream->state = LIVE_ENDING;
    give_place(stream);
    list_remove(&stream->entry);
    list_remove(&stream->due);
    if (out) out->end(out, is_cut);
    if (!stream->is_reading) stream_free(stream);
}

static void count_end(const struct live_stream *stream, const char *reason)
{
    metric_add(metric_with(stream->live->ended, reason), 1);
}

static void on_gone(void *arg)
{
    struct live_stream *stream = arg;
    if (stream->state == LIVE_OPEN) count_end(stream, "client");
    stream->out = NULL;
    close_stream(stream, true);
}

// ---- writing ------------------------------------------------------------------------------------

// May be the end of the stream.
static void flush(struct live_stream *stream)
{
    if (!stream->out || !stream->is_ready) return;
    if (stream->piece.len) {
        stream->is_ready = false;
        stream->written_ms = clock_mono_ms();
        metric_add(stream->live->bytes, stream->piece.len);
        struct strbuf piece = stream->piece;
        strbuf_init(&stream->piece, PIECE_BYTES_MAX);
        stream->out->write(stream->out, strbuf_str(&piece));
        strbuf_finish(&piece);
    } else if (stream->state == LIVE_ENDING) {
        close_stream(stream, false);
    }
}

static void on_ready(void *arg)
{
    struct live_stream *stream = arg;
    stream->is_ready = true;
    bool is_open = stream->state == LIVE_OPEN;
    struct live *live = stream->live;
    flush(stream);
    if (!is_open) return; // it may be gone
    live_stream_touch(stream);
    live_run_due(live);
}

static void add_event(struct live_stream *stream, const char *name, struct str data)
{
    strbuf_addf(&stream->piece, "event: %s\ndata: ", name);
    strbuf_add_str(&stream->piece, data);
    strbuf_add_c(&stream->piece, "\n\n");
    metric_add(stream->live->frames, 1);
}

// The id of an event: the operation's digest, and what the client has of each key.
static void add_id(struct live_stream *stream)
{
    const struct live_window *window = &stream->window;
    size_t len = sizeof stream->operation + window->count * sizeof(uint32_t);
    uint8_t *bytes = mem_alloc(len), *to = bytes + sizeof stream->operation;
    memcpy(bytes, stream->operation, sizeof stream->operation);
    for (size_t i = 0; i < window->count; i++, to += sizeof(uint32_t)) {
        uint32_t state = (uint32_t)window->keys[i].state;
        memcpy(to, &state, sizeof state);
    }
    char *text = mem_alloc(len / 3 * 4 + 8);
    strbuf_add_c(&stream->piece, "id: ");
    strbuf_add(&stream->piece, text, format_base64url(bytes, len, text));
    strbuf_add_byte(&stream->piece, '\n');
    mem_free(text);
    mem_free(bytes);
}

// A comment; the id in it is taken over by clients all the same.
static void beat(struct live_stream *stream, uint64_t now_ms)
{
    char time[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(clock_wall_ms(), time);
    strbuf_addf(&stream->piece, ":{\"time\":\"%s\",\"build\":\"%s\"}\n", time, stream->live->options.build);
    add_id(stream);
    strbuf_add_byte(&stream->piece, '\n');
    stream->beat_ms = now_ms;
    flush(stream);
}

void live_stream_end(struct live_stream *stream, const char *reason, const char *code, const char *text)
{
    if (stream->state != LIVE_OPEN) {
        // It is answered when it has read.
        if (stream->state == LIVE_OPENING) stream->state = LIVE_ENDING;
        return;
    }
    count_end(stream, reason);
    stream->state = LIVE_ENDING;
    give_place(stream);
    list_remove(&stream->due);
    if (code) {
        strbuf_addf(&stream->piece,
                    "event: next\ndata: {\"errors\":[{\"message\":\"%s\",\"extensions\":{\"code\":\"%s\"}}]}\n\n", text,
                    code);
        strbuf_add_c(&stream->piece, "event: complete\ndata:\n\n");
    }
    if (stream->is_ready)
        flush(stream);
    else
        close_stream(stream, true);
}

// ---- executing ----------------------------------------------------------------------------------

static void execute(struct live_stream *stream, struct api_request *request,
                    void (*on_answered)(void *arg, int status, struct str body), void *arg)
{
    struct gql_request execution = {.query = str_c(stream->query),
                                    .operation_name = str_c(stream->operation_name),
                                    .variables = stream->variables,
                                    .subscriptions_allowed = true};
    api_execute(request, &execution, on_answered, arg);
}

static void on_event(void *arg, int status, struct str body)
{
    struct api_request *request = arg;
    struct live_stream *stream = LIST_OWNER(request->live, struct live_stream, event);
    struct live *live = stream->live;
    (void)status;
    stream->is_reading = false;
    live->reads--;
    arena_destroy(request->arena);
    mem_free(request);
    if (!stream->out || stream->state != LIVE_OPEN) {
        if (!stream->out) stream_free(stream);
    } else if (stream->event.has_failed) {
        metric_add(live->failed_reads, 1);
        stream->read_at_ms = clock_mono_ms() + FAILED_WAIT_MS;
        if (++stream->failures < FAILURES_MAX)
            live_stream_touch(stream);
        else
            live_stream_end(stream, "failed", NULL, NULL);
    } else {
        stream->failures = 0;
        if (!stream->event.is_empty) add_event(stream, "next", body);
        metric_add(live->deltas, stream->event.deltas);
        flush(stream);
        if (stream->window.dirty) live_stream_touch(stream);
    }
    live_run_due(live);
}

static bool is_stale(const struct live_stream *stream, uint64_t now_ms)
{
    return now_ms - stream->refreshed_ms >= stream->live->options.refresh_ms;
}

void live_stream_run(struct live_stream *stream)
{
    struct live *live = stream->live;
    uint64_t now_ms = clock_mono_ms();
    if (is_stale(stream, now_ms)) {
        stream->refreshed_ms = now_ms;
        live_window_mark_all(&stream->window);
    }
    struct api_request *request = mem_zalloc(sizeof *request);
    request->api = live->api;
    request->arena = arena_create(REQUEST_BYTES_MAX);
    request->principal = stream->principal;
    request->rules = stream->rules;
    request->method = STR("POST");
    request->live = &stream->event;
    stream->event = (struct live_event){.window = &stream->window, .has_failed = true};
    stream->is_reading = true;
    stream->read_at_ms = now_ms + live->options.delay_ms;
    live->reads++;
    execute(stream, request, on_event, request);
}

// Changes go first: people wait for them.
static struct list *next_due(struct live *live)
{
    bool is_refresh = list_is_empty(&live->due) || live->turn++ % REFRESH_TURN == 0;
    return is_refresh && !list_is_empty(&live->refreshes) ? live->refreshes.next : live->due.next;
}

void live_run_due(struct live *live)
{
    while (live->reads < live->options.reads_max && !(list_is_empty(&live->due) && list_is_empty(&live->refreshes))) {
        struct live_stream *stream = LIST_OWNER(next_due(live), struct live_stream, due);
        list_remove(&stream->due);
        stream->is_refresh = false;
        live_stream_run(stream);
    }
}

static void on_timer(void *arg)
{
    struct live_stream *stream = arg;
    live_stream_touch(stream);
    live_run_due(stream->live);
}

void live_stream_touch(struct live_stream *stream)
{
    if (stream->state != LIVE_OPEN || stream->is_reading || !stream->is_ready || !stream->window.dirty) return;
    uint64_t now_ms = clock_mono_ms();
    if (stream->is_refresh) list_remove(&stream->due);
    stream->is_refresh = false;
    if (now_ms >= stream->read_at_ms)
        list_add_last(&stream->live->due, &stream->due);
    else if (!timer_is_active(&stream->timer))
        timer_start(&stream->timer, stream->read_at_ms - now_ms, 0);
}

void live_stream_tick(struct live_stream *stream, uint64_t now_ms)
{
    const struct live_options *options = &stream->live->options;
    if (stream->out && !stream->is_ready && now_ms - stream->written_ms >= options->stall_ms) {
        if (stream->state == LIVE_OPEN) count_end(stream, "slow");
        close_stream(stream, true);
        return;
    }
    if (stream->state != LIVE_OPEN || !stream->is_ready) return;
    bool is_waiting = stream->is_reading || !list_is_empty(&stream->due) || now_ms < stream->read_at_ms;
    if (is_stale(stream, now_ms) && !is_waiting) {
        stream->is_refresh = true;
        list_add_last(&stream->live->refreshes, &stream->due);
    }
    if (now_ms - stream->beat_ms >= options->heartbeat_ms) beat(stream, now_ms);
}

// ---- opening ------------------------------------------------------------------------------------

static void on_void(void *arg, bool is_unchecked)
{
    struct live_stream *stream = arg;
    live_stream_end(stream, "rights", is_unchecked ? "SERVICE_UNAVAILABLE" : "UNAUTHENTICATED",
                    is_unchecked ? "The credential could not be checked again."
                                 : "The credential has expired, was revoked, or permits something else now.");
}

static enum error_code refuse(struct live_stream *stream, const char *label, const char *text, struct error *err)
{
    metric_add(metric_with(stream->live->refused, label), 1);
    return error_set(err, ERROR_LIMITED, "%s", text);
}

// live_event.admit: a place among the streams of the process, the account and the user.
static enum error_code admit(void *arg, struct error *err)
{
    struct live_stream *stream = arg;
    const struct live_options *options = &stream->live->options;
    if (options->streams && !quota_take(options->streams))
        return refuse(stream, "process", "this replica has live.streams_max subscriptions open", err);
    bool is_account = connection_limiter_enter(options->accounts, str_c(stream->principal.account_id));
    bool is_user = is_account && connection_limiter_enter(options->users, user_of(stream));
    if (!is_user) {
        if (is_account) connection_limiter_leave(options->accounts, str_c(stream->principal.account_id));
        if (options->streams) quota_give(options->streams);
        return is_account
                   ? refuse(stream, "user", "the user has live.streams_per_user_max subscriptions open", err)
                   : refuse(stream, "account", "the account has live.streams_per_account_max subscriptions open", err);
    }
    stream->is_counted = true;
    metric_move(stream->live->open, 1);
    return ERROR_NONE;
}

// Not a subscription, or none that can begin: its one answer.
static void answer_once(struct live_stream *stream, int status, struct str body)
{
    struct api_request *request = stream->request;
    bool is_subscription = stream->window.type || stream->event.is_resolved;
    if (status == 200 && !is_subscription && stream->state != LIVE_ENDING) {
        add_event(stream, "next", body);
        strbuf_add_c(&stream->piece, "event: complete\ndata:\n\n");
        api_respond(request, 200, "text/event-stream; charset=utf-8", strbuf_str(&stream->piece));
    } else if (stream->state == LIVE_ENDING) {
        api_respond_problem(request, 503, "unavailable", "the platform is stopping");
    } else {
        request->media = GRAPHQL_MEDIA_JSON;
        api_respond_graphql(request, status, status == 405 ? "POST" : NULL, body);
    }
    stream_free(stream);
}

static void on_stream(void *arg, struct api_stream *out)
{
    struct live_stream *stream = arg;
    stream->out = out;
    if (!out) {
        close_stream(stream, true);
        return;
    }
    out->on_ready = on_ready;
    out->on_gone = on_gone;
    out->arg = stream;
    stream->state = LIVE_OPEN;
    const struct live_options *options = &stream->live->options;
    stream->written_ms = stream->beat_ms = clock_mono_ms();
    // Those that were opened together, after a restart, say, are not read again together.
    stream->refreshed_ms = stream->written_ms - id_random_below(options->refresh_ms);
    if (options->watch) stream->watched = options->watch(options->ctx, &stream->principal, on_void, stream);
}

static void on_first(void *arg, int status, struct str body)
{
    struct live_stream *stream = arg;
    stream->is_reading = false;
    stream->live->reads--;
    mem_free(stream->hint);
    stream->hint = NULL;
    if (!stream->is_counted || stream->event.has_failed || stream->state == LIVE_ENDING) {
        answer_once(stream, status, body);
        return;
    }
    metric_add(stream->live->deltas, stream->event.deltas);
    strbuf_addf(&stream->piece, "retry: %d\n", RETRY_MS);
    add_id(stream);
    add_event(stream, "next", body);
    api_respond_stream(stream->request, on_stream, stream);
}

// What the client has, where its last event's id is of this operation.
static void read_hint(struct live_stream *stream, struct str id)
{
    size_t most = sizeof stream->operation + LIVE_DELTAS_MAX * sizeof(uint32_t), len;
    if (id.len == 0 || id.len > most / 3 * 4 + 4) return;
    uint8_t *bytes = mem_alloc(id.len);
    if (parse_base64url(id, bytes, id.len, &len, NULL) == ERROR_NONE && len > sizeof stream->operation &&
        (len - sizeof stream->operation) % sizeof(uint32_t) == 0 &&
        memcmp(bytes, stream->operation, sizeof stream->operation) == 0) {
        stream->event.hint_count = (len - sizeof stream->operation) / sizeof(uint32_t);
        stream->hint = mem_alloc(len);
        memcpy(stream->hint, bytes + sizeof stream->operation, len - sizeof stream->operation);
        stream->event.hint = stream->hint;
    }
    mem_free(bytes);
}

static void set_operation(struct live_stream *stream, const json_t *body)
{
    char *variables = stream->variables ? json_dumps(stream->variables, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct str query = json_get_str(body, "query"), name = json_get_str(body, "operationName");
    const struct str parts[] = {str_c(stream->live->options.build), str_c(stream->principal.account_id), query, name,
                                str_c(variables ? variables : "")};
    struct strbuf text;
    uint8_t hash[ID_SHA256_BYTES];
    strbuf_init(&text, SIZE_MAX / 2);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        strbuf_add_str(&text, parts[i]);
        strbuf_add_byte(&text, '\0');
    }
    id_sha256(text.at, text.len, hash);
    memcpy(stream->operation, hash, sizeof stream->operation);
    stream->query = mem_strndup(query.at, query.len);
    stream->operation_name = mem_strndup(name.at ? name.at : "", name.len);
    strbuf_finish(&text);
    mem_free(variables);
}

void live_stream_open(struct live *live, struct api_request *request, json_t *body)
{
    struct live_stream *stream = mem_zalloc(sizeof *stream);
    stream->live = live;
    stream->principal = request->principal;
    stream->rules = access_rules_ref(request->rules);
    stream->request = request;
    stream->variables = json_incref(json_get_object(body, "variables"));
    list_init(&stream->entry);
    list_init(&stream->due);
    list_add_last(&live->streams, &stream->entry);
    live->count++;
    timer_init(&stream->timer, loop_uv(live->options.loop), on_timer, stream);
    strbuf_init(&stream->piece, PIECE_BYTES_MAX);
    stream->event = (struct live_event){
        .window = &stream->window, .is_first = true, .has_failed = true, .admit = admit, .arg = stream};
    set_operation(stream, body);
    read_hint(stream, request->last_event_id);
    stream->is_reading = true;
    live->reads++;
    request->live = &stream->event;
    json_decref(body);
    execute(stream, request, on_first, stream);
}
