#include "cli/forward/forward_connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/row.h"

enum phase { PHASE_CONNECTING, PHASE_ASKING, PHASE_ANSWERING, PHASE_OPEN, PHASE_OVER };

// Bytes on their way in one direction.
struct way {
    size_t len, sent;    // bytes [sent, len) wait
    bool is_ended;       // the source has no more
    bool has_passed_end; // and the destination knows
    char bytes[FORWARD_BUFFER_BYTES];
};

struct forward_connection {
    const struct forward_target *target;
    CURLM *multi;
    CURL *curl;
    int local, remote; // remote: libcurl's, -1 before it is connected
    enum phase phase;
    uint64_t deadline_ms; // until PHASE_OPEN
    size_t asked;         // bytes of the request that were sent
    char problem[CURL_ERROR_SIZE];
    struct way up, down; // down holds the head of the answer first
};

static bool set_options(struct forward_connection *connection)
{
    const struct forward_target *target = connection->target;
    CURL *curl = connection->curl;
    bool is_set = curl && curl_easy_setopt(curl, CURLOPT_URL, target->url) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_HTTPPROXYTUNNEL, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)target->timeout_ms) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, connection->problem) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_PRIVATE, connection) == CURLE_OK;
    if (is_set && target->ca_file) is_set = curl_easy_setopt(curl, CURLOPT_CAINFO, target->ca_file) == CURLE_OK;
    return is_set;
}

static void say(const struct forward_connection *connection, const char *why)
{
    struct strbuf text;
    strbuf_init(&text, 4 * 1024);
    row_write_safe(str_c(why), false, &text);
    fprintf(stderr, "error: a connection to %s: %s\n", connection->target->name, text.len ? text.at : "");
    strbuf_finish(&text);
}

// By a reset the client learns that what it has is not whole.
static void break_off(struct forward_connection *connection, const char *why)
{
    struct linger reset = {.l_onoff = 1};
    if (connection->phase == PHASE_OVER) return;
    setsockopt(connection->local, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    connection->phase = PHASE_OVER;
    say(connection, why);
}

struct forward_connection *forward_connection_create(int fd, CURLM *multi, const struct forward_target *target,
                                                     uint64_t now_ms)
{
    struct forward_connection *connection = mem_zalloc(sizeof *connection);
    *connection = (struct forward_connection){
        .target = target, .multi = multi, .local = fd, .remote = -1, .deadline_ms = now_ms + target->timeout_ms};
    connection->curl = curl_easy_init();
    if (!set_options(connection) || curl_multi_add_handle(multi, connection->curl) != CURLM_OK)
        break_off(connection, "libcurl could not be set up");
    return connection;
}

void forward_connection_destroy(struct forward_connection *connection)
{
    if (!connection) return;
    if (connection->curl) {
        curl_multi_remove_handle(connection->multi, connection->curl);
        curl_easy_cleanup(connection->curl);
    }
    close(connection->local);
    mem_free(connection);
}

struct forward_connection *forward_connection_of(CURL *curl)
{
    struct forward_connection *connection = NULL;
    curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&connection);
    return connection;
}

void forward_connection_on_connected(struct forward_connection *connection, CURLcode result)
{
    curl_socket_t remote = CURL_SOCKET_BAD;
    if (connection->phase != PHASE_CONNECTING) return;
    if (result == CURLE_OK) result = curl_easy_getinfo(connection->curl, CURLINFO_ACTIVESOCKET, &remote);
    if (result != CURLE_OK || remote == CURL_SOCKET_BAD) {
        break_off(connection, *connection->problem ? connection->problem : curl_easy_strerror(result));
        return;
    }
    connection->remote = remote;
    connection->phase = PHASE_ASKING;
}

// ---- the request and its answer -----------------------------------------------------------------

static void ask(struct forward_connection *connection)
{
    const char *request = connection->target->request;
    size_t left = strlen(request) - connection->asked, sent = 0;
    CURLcode result = curl_easy_send(connection->curl, request + connection->asked, left, &sent);
    if (result != CURLE_OK && result != CURLE_AGAIN) {
        break_off(connection, curl_easy_strerror(result));
        return;
    }
    connection->asked += sent;
    if (sent == left) connection->phase = PHASE_ANSWERING;
}

// The value of a header field in a head; empty: it has none.
static struct str field_of(struct str head, const char *name)
{
    struct str line, key;
    while (str_cut(&head, '\n', &line)) {
        if (str_cut(&line, ':', &key) && str_eq_nocase(key, str_c(name))) return str_trim(line);
    }
    return (struct str){0};
}

// Head and body of an answer that is no 101, as far as they came.
static void refuse(struct forward_connection *connection, struct str head, struct str body)
{
    struct str line = {0}, rest = head, version;
    str_cut(&rest, '\r', &line);
    str_cut(&line, ' ', &version);
    struct str cause = field_of(head, "culvert-cause");
    // Of a problem (RFC 9457), the sentence for people.
    const char *key = "\"detail\":\"", *detail = body.len ? memmem(body.at, body.len, key, strlen(key)) : NULL;
    struct str text = detail ? str_from(body, (size_t)(detail - body.at) + strlen(key)) : (struct str){0},
               sentence = {0};
    if (detail) str_cut(&text, '"', &sentence);
    char *why = mem_printf("the platform answers %.*s%s%.*s%s%.*s", (int)(line.len > 100 ? 100 : line.len),
                           line.len ? line.at : "", cause.len ? ": " : "", (int)(cause.len > 60 ? 60 : cause.len),
                           cause.len ? cause.at : "", sentence.len ? ": " : "",
                           (int)(sentence.len > 300 ? 300 : sentence.len), sentence.len ? sentence.at : "");
    break_off(connection, why);
    mem_free(why);
}

static bool has_whole_body(struct str head, struct str body)
{
    uint64_t length;
    struct str text = field_of(head, "content-length");
    return text.len && parse_u64(text, 0, FORWARD_HEAD_BYTES_MAX, &length, NULL) == ERROR_NONE && body.len >= length;
}

static void answer(struct forward_connection *connection)
{
    struct way *down = &connection->down;
    size_t got = 0;
    CURLcode result =
        curl_easy_recv(connection->curl, down->bytes + down->len, FORWARD_HEAD_BYTES_MAX - down->len, &got);
    if (result == CURLE_AGAIN) return;
    bool is_ended = result != CURLE_OK || got == 0;
    down->len += got;
    struct str all = str_of(down->bytes, down->len);
    const char *end = down->len ? memmem(all.at, all.len, "\r\n\r\n", 4) : NULL;
    if (!end) {
        if (is_ended || down->len == FORWARD_HEAD_BYTES_MAX)
            break_off(connection, "what answers is no Culvert ingress listener");
        return;
    }
    size_t head_len = (size_t)(end - all.at) + 4;
    struct str head = str_first(all, head_len), body = str_from(all, head_len);
    if (str_starts(head, STR("HTTP/1.1 101 "))) {
        down->sent = head_len;
        connection->phase = PHASE_OPEN;
    } else if (is_ended || down->len == FORWARD_HEAD_BYTES_MAX || has_whole_body(head, body)) {
        refuse(connection, head, body);
    }
}

// ---- bytes --------------------------------------------------------------------------------------

static bool is_empty(const struct way *way)
{
    return way->sent == way->len;
}

// True: bytes were moved, and there may be more.
static bool read_local(struct forward_connection *connection)
{
    struct way *up = &connection->up;
    if (up->is_ended || !is_empty(up)) return false;
    ssize_t got = recv(connection->local, up->bytes, sizeof up->bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) connection->phase = PHASE_OVER; // the client has gone
    if (got == 0) up->is_ended = true;
    up->sent = 0;
    up->len = got > 0 ? (size_t)got : 0;
    return got > 0;
}

static bool write_remote(struct forward_connection *connection)
{
    struct way *up = &connection->up;
    size_t sent = 0;
    if (!is_empty(up)) {
        CURLcode result = curl_easy_send(connection->curl, up->bytes + up->sent, up->len - up->sent, &sent);
        if (result != CURLE_OK && result != CURLE_AGAIN) break_off(connection, "the tunnel or the service broke off");
        up->sent += sent;
    }
    if (connection->phase == PHASE_OPEN && is_empty(up) && up->is_ended && !up->has_passed_end) {
        shutdown(connection->remote, SHUT_WR);
        up->has_passed_end = true;
    }
    return sent > 0;
}

static bool read_remote(struct forward_connection *connection)
{
    struct way *down = &connection->down;
    size_t got = 0;
    if (connection->phase != PHASE_OPEN || down->is_ended || !is_empty(down)) return false;
    CURLcode result = curl_easy_recv(connection->curl, down->bytes, sizeof down->bytes, &got);
    if (result == CURLE_AGAIN) return false;
    if (result != CURLE_OK) break_off(connection, "the tunnel or the service broke off");
    if (result == CURLE_OK && got == 0) down->is_ended = true;
    down->sent = 0;
    down->len = got;
    return got > 0;
}

static bool write_local(struct forward_connection *connection)
{
    struct way *down = &connection->down;
    ssize_t sent = 0;
    if (connection->phase != PHASE_OPEN) return false;
    if (!is_empty(down)) {
        sent = send(connection->local, down->bytes + down->sent, down->len - down->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) connection->phase = PHASE_OVER;
        down->sent += sent > 0 ? (size_t)sent : 0;
    }
    if (is_empty(down) && down->is_ended && !down->has_passed_end) {
        shutdown(connection->local, SHUT_WR);
        down->has_passed_end = true;
    }
    return sent > 0;
}

bool forward_connection_move(struct forward_connection *connection, uint64_t now_ms)
{
    enum { TURNS_MAX = 16 }; // then it is another connection's turn
    if (connection->phase == PHASE_ASKING) ask(connection);
    if (connection->phase == PHASE_ANSWERING) answer(connection);
    if (connection->phase < PHASE_OPEN && now_ms >= connection->deadline_ms)
        break_off(connection, "the service did not accept it in time (--request-timeout)");
    for (unsigned turn = 0; connection->phase == PHASE_OPEN && turn < TURNS_MAX; turn++) {
        bool has_read = read_local(connection), has_sent = connection->phase == PHASE_OPEN && write_remote(connection);
        bool has_got = read_remote(connection), has_given = write_local(connection);
        if (connection->up.has_passed_end && connection->down.has_passed_end) connection->phase = PHASE_OVER;
        if (!has_read && !has_sent && !has_got && !has_given) break;
    }
    return connection->phase != PHASE_OVER;
}

unsigned forward_connection_waits(const struct forward_connection *connection, struct curl_waitfd *waits)
{
    const struct way *up = &connection->up, *down = &connection->down;
    short remote = 0, local = 0;
    unsigned count = 0;
    if (connection->phase == PHASE_ASKING) remote = CURL_WAIT_POLLOUT;
    if (connection->phase == PHASE_ANSWERING) remote = CURL_WAIT_POLLIN;
    if (connection->phase == PHASE_OPEN) {
        if (!is_empty(up)) remote |= CURL_WAIT_POLLOUT;
        if (is_empty(down) && !down->is_ended) remote |= CURL_WAIT_POLLIN;
        if (is_empty(up) && !up->is_ended) local |= CURL_WAIT_POLLIN;
        if (!is_empty(down)) local |= CURL_WAIT_POLLOUT;
    }
    if (remote) waits[count++] = (struct curl_waitfd){.fd = connection->remote, .events = remote};
    if (local) waits[count++] = (struct curl_waitfd){.fd = connection->local, .events = local};
    return count;
}
