#include "storage/pg/pg_connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "storage/pg/pg_prepared.h"
#include "storage/pg/pg_setup.h"

enum { RETRY_BASE_MS = 100, RETRY_CAP_MS = 5000, CONNECT_TIMEOUT_MS = 15000, ADDRESS_BYTES = 64 };

enum connection_state {
    CONNECTION_RESTING,    // the timer starts the next try
    CONNECTION_RESOLVING,  // the host name, on the system's threads
    CONNECTION_CONNECTING, // libpq's dialogue
    CONNECTION_SETTING_UP, // settings, checks, prepared statements
    CONNECTION_CARRYING,   // batches
    CONNECTION_CLOSED,
};

struct pg_connection {
    struct pg_connection_options options;
    enum connection_state state;
    PGconn *conn;
    uv_poll_t *poll; // of conn's socket; made anew whenever libpq may have taken another socket
    uv_timer_t timer;
    uv_getaddrinfo_t *resolving;
    struct backoff backoff;
    unsigned tries; // rotates through the addresses of a name
    struct pg_setup setup;
    struct pg_prepared *prepared;
    struct pg_batch *first, *last; // in flight, in the order sent
    size_t in_flight;
    bool is_busy; // inside a callback of the owner: do not read answers again
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static void free_handle(uv_handle_t *handle)
{
    mem_free(handle);
}

static void drop_poll(struct pg_connection *c)
{
    if (!c->poll) return;
    uv_close((uv_handle_t *)c->poll, free_handle);
    c->poll = NULL;
}

// Ends whatever is open and fails what is in flight; the state is the caller's to set.
static void hang_up(struct pg_connection *c, enum error_code code, const char *text)
{
    uv_timer_stop(&c->timer);
    if (c->resolving) {
        c->resolving->data = NULL;
        uv_cancel((uv_req_t *)c->resolving);
        c->resolving = NULL;
    }
    drop_poll(c);
    PQfinish(c->conn);
    c->conn = NULL;
    pg_prepared_clear(c->prepared);
    struct pg_batch *batch = c->first;
    c->first = c->last = NULL;
    c->in_flight = 0;
    while (batch) {
        struct pg_batch *next = batch->next;
        batch->next = NULL;
        pg_batch_fail(batch, code, text);
        c->options.on_batch(c->options.ctx, batch);
        batch = next;
    }
}

static void lose(struct pg_connection *c, const struct error *err)
{
    bool was_ready = c->state == CONNECTION_CARRYING;
    c->state = CONNECTION_RESTING;
    char text[ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "the connection to PostgreSQL was lost: %.400s", err->text);
    hang_up(c, ERROR_UNAVAILABLE, text);
    uv_timer_start(&c->timer, on_timer, backoff_next_ms(&c->backoff) + 1, 0);
    c->options.on_lost(c->options.ctx, c, was_ready, err);
}

static void lose_with_message(struct pg_connection *c)
{
    struct error err;
    const char *text = PQerrorMessage(c->conn);
    error_set(&err, ERROR_UNAVAILABLE, "%.*s", (int)strcspn(text, "\n"), text);
    lose(c, &err);
}

// ---- connecting ----------------------------------------------------------------------------------------------------

// libpq closes and opens sockets as it tries addresses, maybe under the same number: each step gets its own handle.
static bool watch(struct pg_connection *c, int events)
{
    drop_poll(c);
    int fd = PQsocket(c->conn);
    if (fd < 0) return false;
    c->poll = mem_zalloc(sizeof *c->poll);
    if (uv_poll_init(c->options.uv, c->poll, fd) != 0) {
        mem_free(c->poll);
        c->poll = NULL;
        return false;
    }
    c->poll->data = c;
    return uv_poll_start(c->poll, events, on_poll) == 0;
}

static bool flush(struct pg_connection *c)
{
    int left = PQflush(c->conn);
    if (left < 0) return false;
    return uv_poll_start(c->poll, UV_READABLE | (left ? UV_WRITABLE : 0), on_poll) == 0;
}

static void set_up(struct pg_connection *c)
{
    c->state = CONNECTION_SETTING_UP;
    bool good = PQsetnonblocking(c->conn, 1) == 0 && PQenterPipelineMode(c->conn) == 1 && watch(c, UV_READABLE) &&
                pg_setup_send(&c->setup, c->conn, c->options.statement_timeout_ms, c->options.checks_login,
                              c->options.settings) &&
                flush(c);
    if (!good) lose_with_message(c);
}

static void dial_on(struct pg_connection *c)
{
    PostgresPollingStatusType status = PQconnectPoll(c->conn);
    if (status == PGRES_POLLING_OK)
        set_up(c);
    else if (status == PGRES_POLLING_FAILED || !watch(c, status == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE))
        lose_with_message(c);
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

// address: numeric, or NULL to let libpq take host= as it is.
static void dial(struct pg_connection *c, const char *address)
{
    c->state = CONNECTION_CONNECTING;
    // What stands before dbname are defaults, what stands behind it overrides the operator's words.
    const char *keywords[] = {"tcp_user_timeout",
                              "keepalives_idle",
                              "application_name",
                              "dbname",
                              "client_encoding",
                              address ? "hostaddr" : NULL,
                              NULL};
    const char *values[] = {"15000", "10", "culvertd", c->options.conninfo, "UTF8", address, NULL};
    c->conn = PQconnectStartParams(keywords, values, 1);
    if (!c->conn || PQstatus(c->conn) == CONNECTION_BAD || !watch(c, UV_WRITABLE)) {
        lose_with_message(c);
        return;
    }
    PQsetNoticeReceiver(c->conn, ignore_notice, NULL);
}

static bool format_address(const struct addrinfo *info, char out[ADDRESS_BYTES])
{
    if (info->ai_family == AF_INET)
        return uv_ip4_name((const struct sockaddr_in *)info->ai_addr, out, ADDRESS_BYTES) == 0;
    if (info->ai_family == AF_INET6)
        return uv_ip6_name((const struct sockaddr_in6 *)info->ai_addr, out, ADDRESS_BYTES) == 0;
    return false;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct pg_connection *c = request->data;
    mem_free(request);
    if (c) {
        c->resolving = NULL;
        char address[ADDRESS_BYTES];
        unsigned count = 0;
        for (const struct addrinfo *info = list; info; info = info->ai_next)
            count++;
        const struct addrinfo *chosen = list;
        for (unsigned skip = count ? c->tries % count : 0; skip > 0; skip--)
            chosen = chosen->ai_next;
        if (status == 0 && chosen && format_address(chosen, address)) {
            dial(c, address);
        } else {
            struct error err;
            error_set(&err, ERROR_UNAVAILABLE, "its host name does not resolve: %s",
                      status ? uv_strerror(status) : "no address");
            lose(c, &err);
        }
    }
    uv_freeaddrinfo(list);
}

// The one host name in the conninfo that needs a lookup, or NULL: libpq would look it up on this thread.
static char *name_to_resolve(const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    char *host = NULL;
    bool has_address = false;
    for (PQconninfoOption *option = options; option && option->keyword; option++) {
        if (!option->val || !*option->val) continue;
        if (strcmp(option->keyword, "hostaddr") == 0) has_address = true;
        if (strcmp(option->keyword, "host") == 0 && !host) host = mem_strdup(option->val);
    }
    PQconninfoFree(options);
    struct in6_addr ignored;
    bool is_name = host && !has_address && host[0] != '/' && host[0] != '@' && !strchr(host, ',') &&
                   inet_pton(AF_INET, host, &ignored) != 1 && inet_pton(AF_INET6, host, &ignored) != 1;
    if (is_name) return host;
    mem_free(host);
    return NULL;
}

static void start(struct pg_connection *c)
{
    c->tries++;
    uv_timer_start(&c->timer, on_timer, CONNECT_TIMEOUT_MS, 0);
    AUTO_FREE char *name = name_to_resolve(c->options.conninfo);
    if (!name) {
        dial(c, NULL);
        return;
    }
    c->state = CONNECTION_RESOLVING;
    c->resolving = mem_zalloc(sizeof *c->resolving);
    c->resolving->data = c;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int status = uv_getaddrinfo(c->options.uv, c->resolving, on_resolved, name, NULL, &hints);
    if (status == 0) return;
    mem_free(c->resolving);
    c->resolving = NULL;
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "its host name cannot be resolved: %s", uv_strerror(status));
    lose(c, &err);
}

static void on_timer(uv_timer_t *timer)
{
    struct pg_connection *c = timer->data;
    if (c->state == CONNECTION_RESTING) {
        start(c);
        return;
    }
    struct error err;
    if (c->state == CONNECTION_CARRYING)
        error_set(&err, ERROR_UNAVAILABLE, "transaction could not be sent");
    else
        error_set(&err, ERROR_TIMEOUT, "no connection within %d ms", CONNECT_TIMEOUT_MS);
    lose(c, &err);
}

// ---- carrying ------------------------------------------------------------------------------------------------------

static void end_first(struct pg_connection *c)
{
    struct pg_batch *batch = c->first;
    c->first = batch->next;
    if (!c->first) c->last = NULL;
    batch->next = NULL;
    c->in_flight--;
    c->is_busy = true;
    c->options.on_batch(c->options.ctx, batch);
    c->is_busy = false;
}

static void end_setup(struct pg_connection *c)
{
    if (c->setup.is_failed) {
        struct error err = c->setup.error;
        lose(c, &err);
        return;
    }
    c->state = CONNECTION_CARRYING;
    uv_timer_stop(&c->timer);
    backoff_reset(&c->backoff);
    c->is_busy = true;
    c->options.on_ready(c->options.ctx, c, c->setup.bypasses_row_security);
    c->is_busy = false;
}

// One answer of the pipeline. A batch ends with its Sync.
static void take(struct pg_connection *c, PGresult *result)
{
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    if (is_sync) PQclear(result);
    if (c->state == CONNECTION_SETTING_UP) {
        if (is_sync)
            end_setup(c);
        else
            pg_setup_take(&c->setup, result);
    } else if (is_sync) {
        end_first(c);
    } else {
        pg_batch_take(c->first, c->prepared, result);
    }
}

static void read_answers(struct pg_connection *c)
{
    unsigned nothing = 0; // NULL ends each statement's answers; two in a row mean that there are none
    while (c->conn && (c->first || c->state == CONNECTION_SETTING_UP) && nothing < 2 && !PQisBusy(c->conn)) {
        PGresult *result = PQgetResult(c->conn);
        nothing = result ? 0 : nothing + 1;
        if (result) take(c, result);
        if (c->conn && PQstatus(c->conn) == CONNECTION_BAD) {
            lose_with_message(c);
            return;
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pg_connection *c = poll->data;
    if (c->state == CONNECTION_CONNECTING) {
        dial_on(c);
        return;
    }
    if (status < 0 || ((events & UV_READABLE) && !PQconsumeInput(c->conn))) {
        read_answers(c); // what came before the end still counts
        if (c->conn) lose_with_message(c);
        return;
    }
    read_answers(c);
    if (c->conn && c->poll && !flush(c)) lose_with_message(c);
}

void pg_connection_submit(struct pg_connection *c, struct pg_batch *batch)
{
    assert(c->state == CONNECTION_CARRYING);
    batch->next = NULL;
    if (c->last)
        c->last->next = batch;
    else
        c->first = batch;
    c->last = batch;
    c->in_flight++;
    bool good = pg_batch_send(batch, c->prepared, c->conn);
    if (good && c->is_busy) return; // on_poll flushes when it has read everything
    if (good) good = flush(c);
    // Losing it here would run callbacks inside the caller's submit: the timer does it, in the loop's next turn.
    if (!good) uv_timer_start(&c->timer, on_timer, 0, 0);
}

void pg_connection_check_deadline(struct pg_connection *c, uint64_t now_ms)
{
    if (!c->first || c->first->deadline_at_ms > now_ms) return;
    pg_batch_fail(c->first, ERROR_TIMEOUT, "PostgreSQL did not answer in time");
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "transaction was not answered in time");
    lose(c, &err);
}

bool pg_connection_is_ready(const struct pg_connection *c)
{
    return c->state == CONNECTION_CARRYING;
}

bool pg_connection_is_slow(const struct pg_connection *c)
{
    for (const struct pg_batch *batch = c->first; batch; batch = batch->next)
        if (batch->is_slow) return true;
    return false;
}

size_t pg_connection_in_flight(const struct pg_connection *c)
{
    return c->in_flight;
}

struct pg_connection *pg_connection_create(const struct pg_connection_options *options)
{
    struct pg_connection *c = mem_zalloc(sizeof *c);
    c->options = *options;
    c->prepared = pg_prepared_create(options->statements_max);
    backoff_init(&c->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    uv_timer_init(options->uv, &c->timer);
    c->timer.data = c;
    uv_timer_start(&c->timer, on_timer, 0, 0);
    return c;
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct pg_connection *c = timer->data;
    struct pg_connection_options options = c->options;
    pg_prepared_destroy(c->prepared);
    mem_free(c);
    options.on_closed(options.ctx);
}

void pg_connection_close(struct pg_connection *c, enum error_code code, const char *text)
{
    c->state = CONNECTION_CLOSED;
    hang_up(c, code, text);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
