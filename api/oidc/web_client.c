#include "api/oidc/web_client.h"

#include <assert.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

enum { CONNECT_TIMEOUT_MS = 5000, POLL_MS = 1000, URL_BYTES_MAX = 2048 };

struct web_call {
    struct web_call *next;
    struct web_client *client;
    struct loop *loop;
    web_done on_done;
    void *arg;
    char *url, *user, *password;
    char *form; // with its NUL
    size_t form_len;
    CURL *easy;
    struct curl_slist *headers;
    struct strbuf body;
    long status;
    struct error err;
    char curl_error[CURL_ERROR_SIZE];
};

struct web_client {
    struct web_client_options options;
    char *ca_file;
    CURLM *multi; // the thread's, but for curl_multi_wakeup()
    pthread_t thread;
    pthread_mutex_t mutex; // guards what follows
    struct web_call *fresh;
    unsigned under_way; // from web_client_send() to on_done
    bool stopping;
};

// ---- one call -----------------------------------------------------------------------------------

static void free_secret(char *text)
{
    if (text) mem_free_secret(text, strlen(text));
}

static void call_free(struct web_call *call)
{
    curl_slist_free_all(call->headers);
    mem_free(call->url);
    free_secret(call->user);
    free_secret(call->password);
    if (call->form) mem_free_secret(call->form, call->form_len);
    if (call->body.at) explicit_bzero(call->body.at, call->body.len); // it may hold tokens
    strbuf_finish(&call->body);
    mem_free(call);
}

static void deliver(void *arg)
{
    struct web_call *call = arg;
    struct web_client *client = call->client;
    pthread_mutex_lock(&client->mutex);
    client->under_way--;
    pthread_mutex_unlock(&client->mutex);
    bool failed = call->err.code != ERROR_NONE;
    call->on_done(call->arg, failed ? &call->err : NULL, failed ? 0 : (int)call->status,
                  failed ? STR_EMPTY : strbuf_str(&call->body));
    call_free(call);
}

static size_t on_write(char *at, size_t size, size_t count, void *arg)
{
    struct web_call *call = arg;
    return strbuf_add(&call->body, at, size * count) ? size * count : 0;
}

static void set_form(struct web_call *call)
{
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->form_len);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->form);
    // A code may be redeemed once: on a connection that is new libcurl repeats nothing by itself.
    curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(call->easy, CURLOPT_FORBID_REUSE, 1L);
}

static void set_options(struct web_call *call)
{
    const struct web_client_options *options = &call->client->options;
    CURL *easy = call->easy;
    call->headers = curl_slist_append(NULL, "Accept: application/json");
    curl_easy_setopt(easy, CURLOPT_URL, call->url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, str_starts(str_c(call->url), STR("https:")) ? "https" : "http");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "culvertd/" CULVERT_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->curl_error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (call->client->ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, call->client->ca_file);
    if (call->client->ca_file) curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (call->user) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(easy, CURLOPT_USERNAME, call->user);
        curl_easy_setopt(easy, CURLOPT_PASSWORD, call->password);
    }
    if (call->form) set_form(call);
}

static void begin(struct web_client *client, struct web_call *call)
{
    call->easy = curl_easy_init();
    if (!call->easy) abort(); // out of memory
    set_options(call);
    if (curl_multi_add_handle(client->multi, call->easy) != CURLM_OK) abort();
}

static void end(struct web_call *call, CURLcode result)
{
    const char *why = call->curl_error[0] ? call->curl_error : curl_easy_strerror(result);
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
    if (call->body.overflow)
        error_set(&call->err, ERROR_TOO_LARGE, "the answer has more than %zu bytes",
                  call->client->options.answer_bytes_max);
    else if (result != CURLE_OK)
        error_set(&call->err, result == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE, "%s", why);
    curl_multi_remove_handle(call->client->multi, call->easy);
    curl_easy_cleanup(call->easy);
    loop_post(call->loop, deliver, call);
}

// ---- the thread ---------------------------------------------------------------------------------

// False: the client ends.
static bool take_fresh(struct web_client *client)
{
    pthread_mutex_lock(&client->mutex);
    struct web_call *call = client->fresh;
    bool goes_on = !client->stopping;
    client->fresh = NULL;
    pthread_mutex_unlock(&client->mutex);
    for (struct web_call *next; call; call = next) {
        next = call->next;
        begin(client, call);
    }
    return goes_on;
}

static void *run(void *arg)
{
    struct web_client *client = arg;
    int running, left;
    while (take_fresh(client)) {
        curl_multi_perform(client->multi, &running);
        for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left));) {
            struct web_call *call;
            CURLcode result = message->data.result;
            if (message->msg != CURLMSG_DONE) continue;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
            end(call, result);
        }
        curl_multi_poll(client->multi, NULL, 0, POLL_MS, NULL);
    }
    return NULL;
}

// ---- the client ---------------------------------------------------------------------------------

enum error_code web_client_create(const struct web_client_options *options, struct web_client **out, struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, ERROR_INTERNAL, "libcurl cannot be initialised");
    struct web_client *client = mem_zalloc(sizeof *client);
    client->options = *options;
    client->options.ca_file = NULL;
    client->ca_file = options->ca_file && *options->ca_file ? mem_strdup(options->ca_file) : NULL;
    client->multi = curl_multi_init();
    if (!client->multi) abort(); // out of memory
    curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)options->requests_max);
    pthread_mutex_init(&client->mutex, NULL);
    if (pthread_create(&client->thread, NULL, run, client) != 0) abort();
    *out = client;
    return ERROR_NONE;
}

void web_client_destroy(struct web_client *client)
{
    if (!client) return;
    pthread_mutex_lock(&client->mutex);
    assert(!client->under_way);
    client->stopping = true;
    pthread_mutex_unlock(&client->mutex);
    curl_multi_wakeup(client->multi);
    pthread_join(client->thread, NULL);
    curl_multi_cleanup(client->multi);
    curl_global_cleanup();
    pthread_mutex_destroy(&client->mutex);
    mem_free(client->ca_file);
    mem_free(client);
}

static struct web_call *call_create(struct web_client *client, struct loop *loop, const struct web_request *request,
                                    web_done on_done, void *arg)
{
    struct web_call *call = mem_zalloc(sizeof *call);
    call->client = client;
    call->loop = loop;
    call->on_done = on_done;
    call->arg = arg;
    call->url = mem_strdup(request->url);
    call->user = request->user ? mem_strdup(request->user) : NULL;
    call->password = request->user ? mem_strdup(request->password) : NULL;
    call->form = request->form.at ? mem_strndup(request->form.at, request->form.len) : NULL;
    call->form_len = request->form.len;
    strbuf_init(&call->body, client->options.answer_bytes_max);
    return call;
}

enum error_code web_client_send(struct web_client *client, struct loop *loop, const struct web_request *request,
                                web_done on_done, void *arg, struct error *err)
{
    struct web_call *call = call_create(client, loop, request, on_done, arg);
    pthread_mutex_lock(&client->mutex);
    bool is_full = client->under_way >= client->options.requests_max;
    if (!is_full) {
        client->under_way++;
        call->next = client->fresh;
        client->fresh = call;
    }
    pthread_mutex_unlock(&client->mutex);
    if (!is_full) {
        curl_multi_wakeup(client->multi);
        return ERROR_NONE;
    }
    call_free(call);
    return error_set(err, ERROR_LIMITED, "%u requests to identity providers are under way already",
                     client->options.requests_max);
}

// ---- URLs ---------------------------------------------------------------------------------------

static bool part_of(CURLU *url, CURLUPart part, char **out)
{
    return curl_url_get(url, part, out, 0) == CURLUE_OK;
}

enum error_code web_url_check(struct str url, struct error *err)
{
    char text[URL_BYTES_MAX], *scheme = NULL, *host = NULL, *user = NULL, *fragment = NULL;
    if (!url.len || url.len >= sizeof text || str_has_byte(url, '\0'))
        return error_set(err, ERROR_INVALID, "must be a URL of 1 to %d bytes", URL_BYTES_MAX - 1);
    snprintf(text, sizeof text, "%.*s", STR_ARG(url));
    CURLU *parts = curl_url();
    bool is_url = parts && curl_url_set(parts, CURLUPART_URL, text, 0) == CURLUE_OK &&
                  part_of(parts, CURLUPART_SCHEME, &scheme) && part_of(parts, CURLUPART_HOST, &host);
    bool has_more = is_url && (part_of(parts, CURLUPART_USER, &user) || part_of(parts, CURLUPART_FRAGMENT, &fragment));
    struct str name = str_c(host);
    bool is_safe = is_url && (strcmp(scheme, "https") == 0 || (strcmp(scheme, "http") == 0 && parse_is_loopback(name)));
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_free(fragment);
    curl_url_cleanup(parts);
    if (is_safe && !has_more) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "must be a URL https://HOST/... (or http to loopback) without user and fragment");
}
