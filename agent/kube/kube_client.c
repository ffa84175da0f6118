#include "agent/kube/kube_client.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"

enum { CONNECT_TIMEOUT_MS = 10000, CREDENTIAL_LOOK_MS = 50 };

enum request_state {
    REQUEST_NEW,     // waits for the next turn
    REQUEST_RUNNING, // in the multi handle
    REQUEST_DEAD,    // out of it, to be freed
};

struct kube_request {
    struct kube_client *client;
    struct kube_request *next, *previous; // all of the client's
    enum request_state state;
    bool cancelled, paused, resume;
    int status; // of an answer by a transport
    CURL *easy;
    struct curl_slist *headers;
    struct kube_request_options options;
    uint64_t credential; // the generation that it was sent with
    char curl_error[CURL_ERROR_SIZE];
};

struct kube_client {
    struct loop *loop;
    struct kube_config *config;
    CURLM *multi;
    struct timer timer; // libcurl's time-out
    struct timer turn;  // what may not be done inside libcurl's callbacks
    struct kube_request *requests;
    size_t request_count;
    unsigned sockets; // that libuv has not closed
    int64_t clock_skew_s;
    bool closing;
};

// A socket of libcurl under watch; lives until libuv has closed it.
struct watched_socket {
    uv_poll_t poll;
    curl_socket_t fd;
    struct kube_client *client;
};

// ---- life of a request ---------------------------------------------------------------------------------------

static void request_free(struct kube_request *request)
{
    struct kube_client *client = request->client;
    if (request->next) request->next->previous = request->previous;
    if (request->previous)
        request->previous->next = request->next;
    else
        client->requests = request->next;
    client->request_count--;
    const struct kube_transport *transport = client->config->transport;
    if (transport && request->state == REQUEST_RUNNING) transport->cancel(transport->ctx, request);
    if (request->easy) {
        if (request->state == REQUEST_RUNNING) curl_multi_remove_handle(client->multi, request->easy);
        curl_easy_cleanup(request->easy);
    }
    curl_slist_free_all(request->headers);
    mem_free((char *)request->options.path);
    mem_free((char *)request->options.body.at);
    mem_free(request);
}

static enum error_code error_code_of(CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT: return ERROR_TIMEOUT;
    case CURLE_COULDNT_RESOLVE_HOST: return ERROR_NOT_FOUND;
    case CURLE_COULDNT_CONNECT: return ERROR_UNAVAILABLE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR: return ERROR_UNAUTHENTICATED;
    default: return ERROR_IO;
    }
}

static void request_finish(struct kube_request *request, CURLcode result)
{
    struct kube_request_options options = request->options;
    bool cancelled = request->cancelled;
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 401) kube_config_token_refused(request->client->config, request->credential);
    struct error err = {0};
    if (result == CURLE_WRITE_ERROR)
        error_set(&err, ERROR_CANCELLED, "stopped by the reader");
    else if (result != CURLE_OK)
        error_set(&err, error_code_of(result), "%s",
                  request->curl_error[0] ? request->curl_error : curl_easy_strerror(result));
    options.path = NULL;
    options.body = STR_EMPTY;
    request_free(request);
    if (!cancelled && options.on_done) options.on_done(options.arg, (int)status, result == CURLE_OK ? NULL : &err);
}

static void take_results(struct kube_client *client)
{
    int left;
    for (CURLMsg *message; !client->closing && (message = curl_multi_info_read(client->multi, &left));) {
        if (message->msg != CURLMSG_DONE) continue;
        struct kube_request *request;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        request_finish(request, result);
    }
}

static size_t on_write(char *at, size_t size, size_t count, void *arg)
{
    struct kube_request *request = arg;
    size_t len = size * count;
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->cancelled) return 0;
    if (status != 200 || !request->options.on_body || request->options.method) return len;
    enum kube_body_verdict verdict = request->options.on_body(request->options.arg, at, len);
    if (request->cancelled || verdict == KUBE_BODY_STOP) return 0;
    request->paused = verdict == KUBE_BODY_PAUSE;
    return request->paused ? CURL_WRITEFUNC_PAUSE : len;
}

static size_t on_header(char *at, size_t size, size_t count, void *arg)
{
    struct kube_request *request = arg;
    size_t len = size * count;
    struct str line = str_of(at, len), name;
    if (!str_cut(&line, ':', &name) || !str_eq_nocase(name, STR("date")) || line.len >= 64) return len;
    char text[64];
    snprintf(text, sizeof text, "%.*s", STR_ARG(line));
    time_t there = curl_getdate(text, NULL);
    if (there > 0) request->client->clock_skew_s = (int64_t)(clock_wall_ms() / 1000) - (int64_t)there;
    return len;
}

static struct curl_slist *make_headers(struct kube_client *client, const char *content_type)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Accept: application/json");
    if (content_type) {
        AUTO_FREE char *line = mem_printf("Content-Type: %s", content_type);
        headers = curl_slist_append(headers, line);
    }
    struct str token = kube_config_token(client->config, clock_mono_ms());
    if (!token.len) return headers;
    char *line = mem_printf("Authorization: Bearer %.*s", STR_ARG(token));
    headers = curl_slist_append(headers, line);
    mem_free_secret(line, strlen(line));
    return headers;
}

static void set_tls(CURL *easy, const struct kube_config *config)
{
    // A plugin's credential may be replaced while the request lives: libcurl copies.
    const struct kube_exec_credential *made = config->exec ? kube_exec_credential(config->exec) : NULL;
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    const struct {
        CURLoption option;
        const char *pem;
    } blobs[] = {{CURLOPT_CAINFO_BLOB, config->ca_pem},
                 {CURLOPT_SSLCERT_BLOB, made ? made->certificate_pem : config->client_certificate_pem},
                 {CURLOPT_SSLKEY_BLOB, made ? made->key_pem : config->client_key_pem}};
    for (size_t i = 0; i < sizeof blobs / sizeof blobs[0]; i++) {
        if (!blobs[i].pem) continue;
        unsigned flags = (made && i) || config->may_change ? CURL_BLOB_COPY : CURL_BLOB_NOCOPY;
        struct curl_blob blob = {(void *)blobs[i].pem, strlen(blobs[i].pem), flags};
        curl_easy_setopt(easy, blobs[i].option, &blob);
    }
}

// libcurl repeats a request by itself when a connection that was used before ends without an
// answer, and the server may have run the first one: a change gets a new connection, on which
// nothing is repeated.
static void set_change(CURL *easy, const struct kube_request_options *options)
{
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)options->body.len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, options->body.at);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, options->method);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
}

// The file system's default bundle must not vouch for a server whose own CA was given: with CAINFO_BLOB libcurl uses
// that alone, and CAPATH is cleared.
static CURL *make_easy(struct kube_request *request)
{
    const struct kube_config *config = request->client->config;
    CURL *easy = curl_easy_init();
    if (!easy) return NULL;
    AUTO_FREE char *url = mem_printf("%s%s", config->server, request->options.path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "culvert-agent/" CULVERT_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->options.timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->curl_error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    if (config->ca_pem) curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (request->options.method) set_change(easy, &request->options);
    set_tls(easy, config);
    return easy;
}

static void request_start(struct kube_request *request)
{
    const struct kube_transport *transport = request->client->config->transport;
    if (transport) {
        request->state = REQUEST_RUNNING;
        transport->begin(transport->ctx, request, request->options.path);
        return;
    }
    request->headers = make_headers(request->client, request->options.content_type);
    request->easy = make_easy(request);
    request->state = REQUEST_RUNNING;
    if (!request->easy || curl_multi_add_handle(request->client->multi, request->easy) != CURLM_OK) {
        log_error("kube", "request_not_started");
        abort();
    }
}

// Ends one that was never started.
static void request_fail(struct kube_request *request, const struct error *err)
{
    struct kube_request_options options = request->options;
    options.path = NULL;
    options.body = STR_EMPTY;
    request_free(request);
    if (options.on_done) options.on_done(options.arg, 0, err);
}

// With the credential of this moment. True: it waits for one.
static bool request_try(struct kube_request *request)
{
    struct kube_exec *exec = request->client->config->exec;
    struct error err;
    switch (exec ? kube_exec_want(exec, &err) : KUBE_EXEC_READY) {
    case KUBE_EXEC_READY:
        request->credential = exec ? kube_exec_generation(exec) : 0;
        request_start(request);
        return false;
    case KUBE_EXEC_FAILED:
        err.code = ERROR_FORBIDDEN;
        request_fail(request, &err);
        return false;
    case KUBE_EXEC_RUNNING: break;
    }
    return true;
}

// ---- libcurl and libuv ---------------------------------------------------------------------------------------

static void request_resume(struct kube_request *request)
{
    const struct kube_transport *transport = request->client->config->transport;
    if (transport)
        transport->resume(transport->ctx, request);
    else
        curl_easy_pause(request->easy, CURLPAUSE_CONT);
}

static void on_turn(void *arg)
{
    struct kube_client *client = arg;
    bool waits = false;
    for (struct kube_request *request = client->requests, *next; request; request = next) {
        next = request->next;
        if (request->cancelled) {
            request_free(request);
        } else if (request->state == REQUEST_NEW) {
            waits |= request_try(request);
        } else if (request->resume) {
            request->resume = request->paused = false;
            // May run on_write at once, and that may cancel any request: they are freed in another turn only.
            request_resume(request);
        }
    }
    take_results(client);
    bool is_set = client->closing || timer_is_active(&client->turn);
    if (waits && !is_set) timer_start(&client->turn, CREDENTIAL_LOOK_MS, 0);
}

static void wake(struct kube_client *client)
{
    if (!client->closing) timer_start(&client->turn, 0, 0);
}

static void on_timer(void *arg)
{
    struct kube_client *client = arg;
    int running;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_results(client);
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct kube_client *client = arg;
    if (client->closing) return 0;
    if (timeout_ms < 0)
        timer_stop(&client->timer);
    else
        timer_start(&client->timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watched_socket *socket = poll->data;
    struct kube_client *client = socket->client;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;
    if (events & UV_READABLE) flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE) flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(client->multi, socket->fd, flags, &running);
    take_results(client);
}

static void client_free_closed(struct kube_client *client)
{
    if (client->closing && client->sockets == 0) mem_free(client);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct watched_socket *socket = handle->data;
    struct kube_client *client = socket->client;
    mem_free(socket);
    client->sockets--;
    client_free_closed(client);
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    (void)easy;
    struct kube_client *client = arg;
    struct watched_socket *socket = socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (!socket) return 0;
        curl_multi_assign(client->multi, fd, NULL);
        uv_poll_stop(&socket->poll);
        uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
        return 0;
    }
    if (!socket) {
        socket = mem_zalloc(sizeof *socket);
        socket->client = client;
        socket->fd = fd;
        if (uv_poll_init_socket(loop_uv(client->loop), &socket->poll, fd) != 0) {
            mem_free(socket);
            return -1;
        }
        socket->poll.data = socket;
        client->sockets++;
        curl_multi_assign(client->multi, fd, socket);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&socket->poll, events, on_poll) == 0 ? 0 : -1;
}

// ---- the client ----------------------------------------------------------------------------------------------

struct kube_client *kube_client_create(struct loop *loop, struct kube_config *config, struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        error_set(err, ERROR_INTERNAL, "libcurl cannot be initialised");
        return NULL;
    }
    CURLM *multi = curl_multi_init();
    if (!multi) {
        curl_global_cleanup();
        error_set(err, ERROR_INTERNAL, "libcurl cannot create a multi handle");
        return NULL;
    }
    struct kube_client *client = mem_zalloc(sizeof *client);
    client->loop = loop;
    client->config = config;
    client->multi = multi;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)KUBE_CLIENT_CONNECTIONS_MAX);
    timer_init(&client->timer, loop_uv(loop), on_timer, client);
    timer_init(&client->turn, loop_uv(loop), on_turn, client);
    return client;
}

struct kube_client *kube_client_create_beside(const struct kube_client *client, struct error *err)
{
    return kube_client_create(client->loop, client->config, err);
}

void kube_client_close(struct kube_client *client)
{
    assert(!client->closing);
    client->closing = true;
    while (client->requests)
        request_free(client->requests);
    curl_multi_cleanup(client->multi);
    curl_global_cleanup();
    timer_finish(&client->timer);
    timer_finish(&client->turn);
    client_free_closed(client);
}

struct kube_request *kube_client_get(struct kube_client *client, const struct kube_request_options *options)
{
    if (client->closing || client->request_count == KUBE_CLIENT_REQUESTS_MAX) return NULL;
    struct kube_request *request = mem_zalloc(sizeof *request);
    request->client = client;
    request->options = *options;
    request->options.path = mem_strdup(options->path);
    request->options.body =
        str_of(options->body.len ? mem_dup(options->body.at, options->body.len) : NULL, options->body.len);
    request->next = client->requests;
    if (request->next) request->next->previous = request;
    client->requests = request;
    client->request_count++;
    wake(client);
    return request;
}

void kube_request_cancel(struct kube_request *request)
{
    request->cancelled = true;
    wake(request->client);
}

int64_t kube_client_clock_skew_s(const struct kube_client *client)
{
    return client->clock_skew_s;
}

int kube_request_status(const struct kube_request *request)
{
    long status = request->status;
    if (request->easy) curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

void kube_request_resume(struct kube_request *request)
{
    if (!request->paused) return;
    request->resume = true;
    wake(request->client);
}

// ---- transports ---------------------------------------------------------------------------------

enum kube_body_verdict kube_request_answer(struct kube_request *request, int status, const char *at, size_t len)
{
    assert(request->state == REQUEST_RUNNING);
    request->status = status;
    if (request->cancelled) return KUBE_BODY_STOP;
    if (status != 200 || !request->options.on_body || len == 0) return KUBE_BODY_TAKEN;
    enum kube_body_verdict verdict = request->options.on_body(request->options.arg, at, len);
    request->paused = verdict == KUBE_BODY_PAUSE;
    return request->cancelled ? KUBE_BODY_STOP : verdict;
}

void kube_request_end(struct kube_request *request, const struct error *err)
{
    assert(request->state == REQUEST_RUNNING);
    struct kube_request_options options = request->options;
    int status = request->status;
    bool cancelled = request->cancelled;
    options.path = NULL;
    options.body = STR_EMPTY;
    request->state = REQUEST_DEAD;
    request_free(request);
    if (!cancelled && options.on_done) options.on_done(options.arg, status, err);
}
