// events: one client of server-sent events. It takes `data: <nanoseconds>` lines for S seconds, each the moment at
// which the service wrote it (CLOCK_MONOTONIC), and prints one line of JSON: events, seconds, p50 and p99 of the delay
// from that write to the reading here, in microseconds.
#include "client.h"
#include "histogram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { LINE_BYTES_MAX = 128 };

// RFC 9112, 7.1, without extensions and trailers: `left` bytes of a chunk, then CR LF, then a size line.
struct body {
    bool chunked, ended;
    uint64_t left;
    char size[20];
    size_t size_bytes;
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
};

static void on_line(const char *line, struct histogram *delays)
{
    unsigned long long written;
    if (strncmp(line, "data: ", 6) != 0) return; // ends of events, comments
    if (sscanf(line + 6, "%llu", &written) != 1) client_die("an event without a time");
    histogram_add(delays, (histogram_now_ns() - written) / 1000);
}

static void take_text(struct body *body, char byte, struct histogram *delays)
{
    if (byte != '\n') {
        if (body->line_bytes == LINE_BYTES_MAX - 1) client_die("a line that is too long");
        body->line[body->line_bytes++] = byte;
        return;
    }
    body->line[body->line_bytes] = '\0';
    body->line_bytes = 0;
    on_line(body->line, delays);
}

static void take_size(struct body *body, char byte)
{
    if (body->size_bytes == sizeof(body->size) - 1) client_die("a chunk size that is too long");
    body->size[body->size_bytes++] = byte;
    body->size[body->size_bytes] = '\0';
    if (byte != '\n' || strcmp(body->size, "\r\n") == 0) { // the latter ends the chunk before
        if (byte == '\n') body->size_bytes = 0;
        return;
    }
    char *end;
    body->left = strtoull(body->size, &end, 16);
    if (end == body->size || strcmp(end, "\r\n") != 0) client_die("a chunk size that is none");
    body->ended = body->left == 0;
    body->size_bytes = 0;
}

static void take(struct body *body, const char *data, size_t bytes, struct histogram *delays)
{
    errno = 0;
    for (size_t i = 0; i < bytes && !body->ended; i++) {
        if (body->chunked && body->left == 0) {
            take_size(body, data[i]);
        } else {
            if (body->chunked) body->left--;
            take_text(body, data[i], delays);
        }
    }
}

int main(int argc, char **argv)
{
    static char head[CLIENT_HEAD_BYTES_MAX + 1], request[CLIENT_REQUEST_BYTES_MAX], buffer[16 * 1024];
    const struct timeval patience = {.tv_usec = 100 * 1000}; // so that the end of the run is noticed without an event
    struct client_options options;
    struct client_answer answer;
    struct client client;
    struct histogram delays;
    client_parse_options(argc, argv, &options);
    histogram_init(&delays);
    SSL_CTX *tls = client_tls(&options);
    client_open(&client, &options, tls);
    client_send(&client, request, client_make_request(&options, "GET", "Accept: text/event-stream\r\n", request));
    client_receive_head(&client, head, &answer);
    if (answer.status != 200 || answer.has_length) client_die("an answer that is no endless 200");
    if (setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) client_die("setsockopt");
    struct body body = {.chunked = answer.chunked};
    uint64_t start = histogram_now_ns(), now = start;
    take(&body, answer.body, answer.body_bytes, &delays);
    while ((now = histogram_now_ns()) < start + (uint64_t)options.seconds * 1000000000) {
        long count = client_receive(&client, buffer, sizeof(buffer));
        if (count < 0 || body.ended) client_die("the events have ended");
        take(&body, buffer, (size_t)count, &delays);
    }
    printf("{\"events\": %llu, \"seconds\": %.3f, \"p50_us\": %u, \"p99_us\": %u}\n", (unsigned long long)delays.count,
           (double)(now - start) / 1e9, histogram_percentile_us(&delays, 0.50), histogram_percentile_us(&delays, 0.99));
    client_close(&client);
    histogram_finish(&delays);
    SSL_CTX_free(tls);
    return 0;
}
