// bulk: one big transfer, down (GET) or up (--put BYTES), every byte of it checked against the pattern: here when it
// comes down, by the origin when it goes up. Then one line of JSON: status, bytes, exact, seconds (connecting
// included). SIGTERM ends a download early; what came until then counts.
#include "client.h"
#include "histogram.h"
#include "pattern.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pattern pattern;
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

// The bytes that came down; whether all that were announced came and were right goes to `out_exact`.
static uint64_t receive_body(struct client *client, const struct client_answer *answer, bool *out_exact)
{
    static char buffer[256 * 1024];
    uint64_t taken = answer->body_bytes;
    bool same = pattern_matches(&pattern, 0, answer->body, answer->body_bytes);
    while (taken < answer->length && !stopped) {
        long count = client_receive(client, buffer, sizeof(buffer));
        if (count <= 0) break;
        same = same && pattern_matches(&pattern, taken, buffer, (size_t)count);
        taken += (uint64_t)count;
    }
    *out_exact = same && answer->has_length && (taken == answer->length || stopped);
    return taken;
}

static void send_body(struct client *client, uint64_t bytes)
{
    for (uint64_t sent = 0; sent < bytes;) {
        size_t piece = bytes - sent < PATTERN_PIECE_BYTES_MAX ? (size_t)(bytes - sent) : PATTERN_PIECE_BYTES_MAX;
        client_send(client, pattern_at(&pattern, sent), piece);
        sent += piece;
    }
}

// What the origin says of the body that went up: "<bytes> exact\n" or "<bytes> wrong\n".
static uint64_t receive_verdict(struct client *client, struct client_answer *answer, bool *out_exact)
{
    char text[64] = "";
    size_t used = answer->body_bytes < sizeof(text) ? answer->body_bytes : sizeof(text) - 1;
    memcpy(text, answer->body, used);
    while (used < answer->length && used < sizeof(text) - 1) {
        long count = client_receive(client, text + used, sizeof(text) - 1 - used);
        if (count <= 0) break;
        used += (size_t)count;
    }
    text[used < sizeof(text) ? used : sizeof(text) - 1] = '\0';
    *out_exact = strstr(text, " exact\n") != NULL;
    return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
    static char head[CLIENT_HEAD_BYTES_MAX + 1], request[CLIENT_REQUEST_BYTES_MAX];
    struct client_options options;
    struct client_answer answer;
    struct client client;
    char length[64] = "";
    bool exact;
    client_parse_options(argc, argv, &options);
    (void)sigaction(SIGTERM, &(const struct sigaction){.sa_handler = on_signal}, NULL);
    bool up = options.bytes > 0;
    if (up) snprintf(length, sizeof(length), "Content-Length: %llu\r\n", (unsigned long long)options.bytes);
    pattern_init(&pattern);
    size_t request_bytes = client_make_request(&options, up ? "PUT" : "GET", length, request);
    SSL_CTX *tls = client_tls(&options);
    uint64_t start = histogram_now_ns();
    client_open(&client, &options, tls);
    client_send(&client, request, request_bytes);
    send_body(&client, options.bytes);
    client_receive_head(&client, head, &answer);
    uint64_t bytes = up ? receive_verdict(&client, &answer, &exact) : receive_body(&client, &answer, &exact);
    printf("{\"status\": %u, \"bytes\": %llu, \"exact\": %s, \"seconds\": %.6f}\n", answer.status,
           (unsigned long long)bytes, exact ? "true" : "false", (double)(histogram_now_ns() - start) / 1e9);
    client_close(&client);
    SSL_CTX_free(tls);
    return 0;
}
