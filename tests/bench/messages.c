// messages: one WebSocket client (RFC 6455) in a closed loop. It sends a binary message of 1 KiB, waits for its echo,
// compares it, and so on for S seconds; then one line of JSON: messages, seconds, p50 and p99 of the round trip in
// microseconds.
#include "client.h"
#include "histogram.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PAYLOAD_BYTES = 1024, HEADER_BYTES = 4, MASK_BYTES = 4, OP_BINARY = 2, OP_PING = 9, FIN = 0x80, MASKED = 0x80 };

#define KEY "Y3VsdmVydCBiZW5jaCAgIA=="

struct input {
    char *at; // what was read and not taken yet
    size_t bytes;
    char buffer[CLIENT_HEAD_BYTES_MAX + 1];
};

static void receive_exactly(struct client *client, struct input *input, unsigned char *out, size_t bytes)
{
    while (bytes > 0) {
        if (input->bytes == 0) {
            long count = client_receive(client, input->buffer, CLIENT_HEAD_BYTES_MAX);
            if (count <= 0) client_die("the connection ended");
            input->at = input->buffer;
            input->bytes = (size_t)count;
        }
        size_t piece = bytes < input->bytes ? bytes : input->bytes;
        memcpy(out, input->at, piece);
        input->at += piece;
        input->bytes -= piece;
        out += piece;
        bytes -= piece;
    }
}

static void open_socket(struct client *client, const struct client_options *options, SSL_CTX *tls, struct input *input)
{
    char request[CLIENT_REQUEST_BYTES_MAX];
    struct client_answer answer;
    size_t bytes = client_make_request(options, "GET",
                                       "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                       "Sec-WebSocket-Key: " KEY "\r\n",
                                       request);
    client_open(client, options, tls);
    client_send(client, request, bytes);
    client_receive_head(client, input->buffer, &answer);
    if (answer.status != 101) {
        fprintf(stderr, "messages: the upgrade was answered with %u\n", answer.status);
        client_die("no WebSocket");
    }
    input->at = answer.body;
    input->bytes = answer.body_bytes;
}

static void send_message(struct client *client, const unsigned char payload[PAYLOAD_BYTES], uint32_t mask)
{
    unsigned char frame[HEADER_BYTES + MASK_BYTES + PAYLOAD_BYTES] = {FIN | OP_BINARY, MASKED | 126, PAYLOAD_BYTES >> 8,
                                                                      PAYLOAD_BYTES & 0xff};
    memcpy(frame + HEADER_BYTES, &mask, MASK_BYTES);
    for (size_t i = 0; i < PAYLOAD_BYTES; i++)
        frame[HEADER_BYTES + MASK_BYTES + i] = payload[i] ^ frame[HEADER_BYTES + i % MASK_BYTES];
    client_send(client, frame, sizeof(frame));
}

// Messages may come in fragments and with pings between them; bytes have to be the same.
static void receive_message(struct client *client, struct input *input, unsigned char payload[PAYLOAD_BYTES])
{
    size_t taken = 0;
    for (bool last = false; !last;) {
        unsigned char header[2], extended[8], scratch[125];
        receive_exactly(client, input, header, 2);
        size_t bytes = header[1]; // a mask bit makes it too long
        if (bytes == 126) {
            receive_exactly(client, input, extended, 2);
            bytes = (size_t)extended[0] << 8 | extended[1];
        }
        if ((header[0] & 0x0f) == OP_PING && bytes <= sizeof(scratch)) {
            receive_exactly(client, input, scratch, bytes);
            continue;
        }
        errno = 0;
        if ((header[0] & 0x0f) != (taken > 0 ? 0 : OP_BINARY) || bytes > PAYLOAD_BYTES - taken)
            client_die("a frame that is no part of the echo");
        receive_exactly(client, input, payload + taken, bytes);
        taken += bytes;
        last = (header[0] & FIN) != 0;
    }
    if (taken != PAYLOAD_BYTES) client_die("an echo that is too short");
}

int main(int argc, char **argv)
{
    static struct input input;
    unsigned char sent[PAYLOAD_BYTES], received[PAYLOAD_BYTES];
    struct client_options options;
    struct client client;
    struct histogram trips;
    client_parse_options(argc, argv, &options);
    histogram_init(&trips);
    SSL_CTX *tls = client_tls(&options);
    open_socket(&client, &options, tls, &input);
    uint64_t start = histogram_now_ns(), now = start;
    while (now < start + (uint64_t)options.seconds * 1000000000) {
        uint64_t before = now;
        memset(sent, (int)(trips.count & 0xff), sizeof(sent));
        send_message(&client, sent, (uint32_t)(trips.count * 2654435761u));
        receive_message(&client, &input, received);
        if (memcmp(sent, received, sizeof(sent)) != 0) client_die("an echo of something else");
        now = histogram_now_ns();
        histogram_add(&trips, (now - before) / 1000);
    }
    printf("{\"messages\": %llu, \"seconds\": %.3f, \"p50_us\": %u, \"p99_us\": %u}\n", (unsigned long long)trips.count,
           (double)(now - start) / 1e9, histogram_percentile_us(&trips, 0.50), histogram_percentile_us(&trips, 0.99));
    client_close(&client);
    histogram_finish(&trips);
    SSL_CTX_free(tls);
    return 0;
}
