#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/strbuf.h"

#define GRAPHQL_PATH "/2.0/api/graphql"

struct client {
    CURL *curl;
    struct curl_slist *headers;
    char *url;
    const struct context *context;
    struct strbuf answer;
    char problem[CURL_ERROR_SIZE];
};

static size_t on_bytes(char *at, size_t size, size_t count, void *data)
{
    struct client *client = data;
    (void)size; // always 1
    return strbuf_add(&client->answer, at, count) ? count : 0;
}

static bool add_header(struct client *client, const char *text)
{
    struct curl_slist *list = curl_slist_append(client->headers, text);
    if (list) client->headers = list;
    return list != NULL;
}

static bool set_headers(struct client *client, const struct context *context)
{
    bool is_set = add_header(client, "content-type: application/json") &&
                  add_header(client, "accept: application/graphql-response+json, application/json");
    if (!is_set || !context->token) return is_set;
    char *header = mem_printf("authorization: %s", context->token);
    is_set = add_header(client, header);
    mem_free_secret(header, strlen(header));
    return is_set;
}

static bool set_options(struct client *client, const struct context *context, unsigned timeout_ms)
{
    CURL *curl = client->curl;
    bool is_set = curl_easy_setopt(curl, CURLOPT_URL, client->url) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip") == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_USERAGENT, "culvert/" CULVERT_VERSION) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ms < 10000 ? timeout_ms : 10000)) ==
                      CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->problem) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEDATA, client) == CURLE_OK;
    if (is_set && context->ca_file) is_set = curl_easy_setopt(curl, CURLOPT_CAINFO, context->ca_file) == CURLE_OK;
    return is_set;
}

enum error_code client_create(const struct context *context, unsigned timeout_ms, struct client **out,
                              struct error *err)
{
    struct client *client = mem_zalloc(sizeof *client);
    client->context = context;
    strbuf_init(&client->answer, CLIENT_ANSWER_BYTES_MAX);
    size_t len = strlen(context->url);
    while (len && context->url[len - 1] == '/')
        len--;
    client->url = mem_printf("%.*s%s", (int)len, context->url, GRAPHQL_PATH);
    client->curl = curl_easy_init();
    if (!client->curl || !set_headers(client, context) || !set_options(client, context, timeout_ms)) {
        client_destroy(client);
        return error_set(err, ERROR_INTERNAL, "libcurl could not be set up");
    }
    *out = client;
    return ERROR_NONE;
}

void client_destroy(struct client *client)
{
    if (!client) return;
    curl_slist_free_all(client->headers);
    if (client->curl) curl_easy_cleanup(client->curl);
    strbuf_finish(&client->answer);
    mem_free(client->url);
    mem_free(client);
}

static enum error_code transport_error(const struct client *client, CURLcode result, struct error *err)
{
    const char *url = client->context->url, *why = *client->problem ? client->problem : curl_easy_strerror(result);
    switch (result) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return error_set(err, ERROR_UNAVAILABLE, "%s: %s (a private CA: culvert login --ca-file FILE, or CULVERT_CA)",
                         url, why);
    case CURLE_OPERATION_TIMEDOUT:
        return error_set(err, ERROR_UNAVAILABLE, "%s: no answer in time: %s (--request-timeout)", url, why);
    case CURLE_WRITE_ERROR:
        return error_set(err, ERROR_TOO_LARGE, "%s: the answer is longer than %d bytes; ask for fewer rows (--limit)",
                         url, CLIENT_ANSWER_BYTES_MAX);
    default: return error_set(err, ERROR_UNAVAILABLE, "%s cannot be reached: %s", url, why);
    }
}

// extensions.code of the platform's errors.
static enum error_code code_of(const char *name)
{
    static const struct {
        const char *name;
        enum error_code code;
    } codes[] = {
        {"NOT_FOUND", ERROR_NOT_FOUND}, {"UNAUTHENTICATED", ERROR_UNAUTHENTICATED}, {"FORBIDDEN", ERROR_FORBIDDEN},
        {"CONFLICT", ERROR_CONFLICT},   {"UNAVAILABLE", ERROR_UNAVAILABLE},         {"LIMITED", ERROR_LIMITED},
        {"INVALID", ERROR_INTERNAL},    {"BAD_USER_INPUT", ERROR_INTERNAL},
    };
    for (size_t i = 0; name && i < sizeof codes / sizeof *codes; i++) {
        if (strcasecmp(codes[i].name, name) == 0) return codes[i].code;
    }
    return ERROR_INTERNAL;
}

static enum error_code first_error(const json_t *errors, struct error *err)
{
    const json_t *first = json_array_get(errors, 0);
    const char *message = json_string_value(json_object_get(first, "message"));
    enum error_code code = code_of(json_string_value(json_path(first, "extensions", "code", NULL)));
    return error_set(err, code, "%.400s", message ? message : "the platform refused the request without a message");
}

static void print_warnings(const json_t *errors)
{
    size_t i;
    const json_t *error;
    json_array_foreach(errors, i, error)
    {
        const char *message = json_string_value(json_object_get(error, "message"));
        fprintf(stderr, "warning: %s\n", message ? message : "a part of the answer is missing");
    }
}

// A problem (RFC 9457), or what some other program answered.
static enum error_code status_error(const struct client *client, long status, const json_t *tree, struct error *err)
{
    const char *detail = json_string_value(json_object_get(tree, "detail"));
    if (status == 401)
        return error_set(err, ERROR_UNAUTHENTICATED,
                         "%s: the API key is missing, expired or revoked; run: culvert login", client->context->url);
    if (status == 403) return error_set(err, ERROR_FORBIDDEN, "%s", detail ? detail : "forbidden");
    if (status == 404 && detail) return error_set(err, ERROR_NOT_FOUND, "%s", detail);
    if (status == 429)
        return error_set(err, ERROR_LIMITED, "%s", detail ? detail : "too many requests; try again later");
    if (status == 502 || status == 503 || status == 504)
        return error_set(err, ERROR_UNAVAILABLE, "%s answers %ld: %s", client->context->url, status,
                         detail ? detail : "not available");
    if (detail) return error_set(err, ERROR_INTERNAL, "%s", detail);
    return error_set(err, ERROR_PROTOCOL, "%s answers %ld and is no Culvert platform (or a proxy answers in its place)",
                     client->context->url, status);
}

static enum error_code take_answer(struct client *client, long status, const char *needed, json_t **out_data,
                                   struct error *err)
{
    static const struct json_limits limits = {
        .bytes_max = CLIENT_ANSWER_BYTES_MAX, .depth_max = 128, .tokens_max = 20 * 1000 * 1000};
    json_t *tree = NULL;
    if (json_decode(strbuf_str(&client->answer), &limits, &tree, NULL) != ERROR_NONE) tree = NULL;
    json_t *data = json_get_object(tree, "data"), *errors = json_get_array(tree, "errors");
    enum error_code code = ERROR_NONE;
    if (json_object_get(data, needed) && !json_is_null(json_object_get(data, needed))) {
        print_warnings(errors);
        *out_data = json_incref(data);
    } else if (json_array_size(errors)) {
        code = first_error(errors, err);
    } else if (data) {
        *out_data = json_incref(data); // null without an error: no such object
    } else {
        code = status_error(client, status, tree, err);
    }
    json_decref(tree);
    return code;
}

// A path below the platform's URL; the caller frees it.
static char *url_of(const struct client *client, const char *path)
{
    return mem_printf("%.*s%s", (int)(strlen(client->url) - strlen(GRAPHQL_PATH)), client->url, path);
}

enum error_code client_query(struct client *client, const char *document, json_t *variables, const char *needed,
                             json_t **out_data, struct error *err)
{
    json_t *body = json_pack("{s:s, s:o*}", "query", document, "variables", variables);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) return error_set(err, ERROR_INVALID, "the arguments are no valid UTF-8");
    strbuf_clear(&client->answer);
    client->problem[0] = '\0';
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(text));
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, text);
    CURLcode result = curl_easy_perform(client->curl);
    long status = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    free(text);
    if (result != CURLE_OK) return transport_error(client, result, err);
    return take_answer(client, status, needed, out_data, err);
}

enum error_code client_form(struct client *client, const char *path, const char *form, long *out_status, json_t **out,
                            struct error *err)
{
    char *url = url_of(client, path);
    struct curl_slist *headers = curl_slist_append(NULL, "content-type: application/x-www-form-urlencoded");
    strbuf_clear(&client->answer);
    client->problem[0] = '\0';
    bool is_set = headers && curl_easy_setopt(client->curl, CURLOPT_URL, url) == CURLE_OK &&
                  curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
                  curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(form)) == CURLE_OK &&
                  curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, form) == CURLE_OK;
    CURLcode result = is_set ? curl_easy_perform(client->curl) : CURLE_OUT_OF_MEMORY;
    *out_status = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, out_status);
    curl_easy_setopt(client->curl, CURLOPT_URL, client->url);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    curl_slist_free_all(headers);
    mem_free(url);
    if (result != CURLE_OK) return transport_error(client, result, err);
    json_t *tree = NULL;
    if (json_decode(strbuf_str(&client->answer), NULL, &tree, NULL) != ERROR_NONE) tree = NULL;
    explicit_bzero(client->answer.at, client->answer.len);
    if (json_is_object(tree)) {
        *out = tree;
        return ERROR_NONE;
    }
    json_decref(tree);
    return status_error(client, *out_status, NULL, err);
}

enum { LINE_BYTES_MAX = 256 * 1024, SILENCE_SECONDS = 60 };

// The answer of client_lines: lines while the status is 200, else the whole body.
struct lines {
    struct client *client;
    client_line_fn on_line;
    void *arg;
    struct error err;
    enum error_code code;
};

static size_t on_stream(char *at, size_t size, size_t count, void *data)
{
    struct lines *lines = data;
    struct strbuf *answer = &lines->client->answer;
    long status = 0;
    (void)size; // always 1
    curl_easy_getinfo(lines->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!strbuf_add(answer, at, count)) return 0;
    if (status != 200) return count;
    struct str rest = strbuf_str(answer), line;
    size_t taken = 0;
    while (lines->code == ERROR_NONE && str_cut(&rest, '\n', &line)) {
        taken += line.len + 1;
        if (line.len) lines->code = lines->on_line(lines->arg, line, &lines->err);
    }
    strbuf_drop_front(answer, taken);
    if (lines->code == ERROR_NONE && answer->len > LINE_BYTES_MAX)
        lines->code =
            error_set(&lines->err, ERROR_PROTOCOL, "a line of the answer is longer than %d bytes", LINE_BYTES_MAX);
    return lines->code == ERROR_NONE ? count : 0;
}

static bool set_stream(struct client *client, struct lines *lines, const char *url, struct curl_slist *headers)
{
    CURL *curl = client->curl;
    return curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_stream) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEDATA, lines) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, NULL) == CURLE_OK && // as it is written, not by blocks
           curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_SECONDS) == CURLE_OK;
}

enum error_code client_lines(struct client *client, const char *path, client_line_fn on_line, void *arg,
                             struct error *err)
{
    struct lines lines = {.client = client, .on_line = on_line, .arg = arg};
    char *url = url_of(client, path);
    char *key = mem_printf("authorization: %s", client->context->token ? client->context->token : "");
    struct curl_slist *headers = curl_slist_append(NULL, "accept: application/x-ndjson");
    if (headers && client->context->token) curl_slist_append(headers, key);
    strbuf_clear(&client->answer);
    client->problem[0] = '\0';
    CURLcode result =
        headers && set_stream(client, &lines, url, headers) ? curl_easy_perform(client->curl) : CURLE_OUT_OF_MEMORY;
    long status = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    mem_free_secret(key, strlen(key));
    mem_free(url);
    if (lines.code != ERROR_NONE) return error_set(err, lines.code, "%s", lines.err.text);
    if (result != CURLE_OK) return transport_error(client, result, err);
    if (status == 200) return ERROR_NONE;
    json_t *tree = NULL;
    if (json_decode(strbuf_str(&client->answer), NULL, &tree, NULL) != ERROR_NONE) tree = NULL;
    enum error_code code = status_error(client, status, tree, err);
    json_decref(tree);
    return code;
}

static size_t on_fetched(char *at, size_t size, size_t count, void *data)
{
    (void)size; // always 1
    return strbuf_add(data, at, count) ? count : 0;
}

enum error_code client_fetch(const char *url, struct strbuf *out, struct error *err)
{
    CURL *curl = curl_easy_init();
    long status = 0;
    bool is_set = curl && curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 10000L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_fetched) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_WRITEDATA, out) == CURLE_OK;
    CURLcode result = is_set ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    if (result == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (curl) curl_easy_cleanup(curl);
    if (result != CURLE_OK) return error_set(err, ERROR_UNAVAILABLE, "%s", curl_easy_strerror(result));
    return status == 200 ? ERROR_NONE : error_set(err, ERROR_UNAVAILABLE, "answers %ld", status);
}

void client_escape(struct str text, struct strbuf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool is_plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
        strbuf_addf(out, is_plain ? "%c" : "%%%02X", c);
    }
}
