// The origin's endless answers: server-sent events, and the WebSocket that sends back what it gets (RFC 6455).
#include "histogram.h"
#include "origin.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FIN = 0x80, MASKED = 0x80, OP_CONTINUATION = 0, OP_TEXT = 1, OP_BINARY = 2, PAYLOAD_BYTES_MAX = 8 * 1024 };

// ---- events --------------------------------------------------------------------------------------------------------

bool origin_events_start(struct origin_connection *connection, unsigned per_second)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    connection->work = ORIGIN_EVENTS;
    connection->every_ns = 1000000000 / per_second;
    connection->due_ns = histogram_now_ns();
    return origin_write(connection, head, sizeof(head) - 1);
}

// One event, a chunk of its own. Events that were missed are not made up for.
bool origin_events_write(struct origin_connection *connection)
{
    char event[64], chunk[96];
    uint64_t now = histogram_now_ns();
    int event_bytes = snprintf(event, sizeof(event), "data: %llu\n\n", (unsigned long long)now);
    int bytes = snprintf(chunk, sizeof(chunk), "%x\r\n%s\r\n", (unsigned)event_bytes, event);
    connection->due_ns += connection->every_ns;
    if (connection->due_ns <= now) connection->due_ns = now + connection->every_ns;
    return origin_write(connection, chunk, (size_t)bytes);
}

// ---- WebSocket -----------------------------------------------------------------------------------------------------

bool origin_socket_start(struct origin_connection *connection, const char *head)
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const char *field = strcasestr(head, "\r\nSec-WebSocket-Key: ");
    char key[24 + sizeof(guid)], answer[256];
    unsigned char digest[SHA_DIGEST_LENGTH], accept[4 * SHA_DIGEST_LENGTH / 3 + 4];
    if (field == NULL || strcasestr(head, "\r\nUpgrade: websocket\r\n") == NULL || strcspn(field + 21, "\r") != 24)
        return false;
    memcpy(key, field + 21, 24);
    memcpy(key + 24, guid, sizeof(guid));
    SHA1((const unsigned char *)key, strlen(key), digest);
    EVP_EncodeBlock(accept, digest, sizeof(digest));
    int bytes = snprintf(answer, sizeof(answer),
                         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         "Sec-WebSocket-Accept: %s\r\n\r\n",
                         accept);
    connection->work = ORIGIN_SOCKET;
    return origin_write(connection, answer, (size_t)bytes);
}

// The frame at the front of `in`: its header's and payload's bytes. False: not complete; `*out_bad`: it never will be.
static bool parse_frame(const struct origin_connection *connection, size_t *out_header, size_t *out_payload,
                        bool *out_bad)
{
    const unsigned char *in = (const unsigned char *)connection->in;
    *out_bad = false;
    if (connection->used < 2) return false;
    unsigned opcode = in[0] & 0x0f, length = in[1] & 0x7f;
    *out_bad = (in[1] & MASKED) == 0 || length == 127 || opcode > OP_BINARY; // a close ends it as well
    *out_header = length == 126 ? 8 : 6;
    if (*out_bad || connection->used < *out_header) return false;
    *out_payload = length == 126 ? (size_t)in[2] << 8 | in[3] : length;
    *out_bad = *out_payload > PAYLOAD_BYTES_MAX;
    return !*out_bad && connection->used >= *out_header + *out_payload;
}

// Sends back every complete frame, unmasked.
bool origin_socket_take(struct origin_connection *connection)
{
    size_t header, payload;
    bool bad;
    while (parse_frame(connection, &header, &payload, &bad)) {
        unsigned char frame[4 + PAYLOAD_BYTES_MAX];
        const unsigned char *in = (const unsigned char *)connection->in, *mask = in + header - 4;
        size_t at = payload < 126 ? 2 : 4;
        frame[0] = in[0];
        frame[1] = (unsigned char)(payload < 126 ? payload : 126);
        if (at == 4) {
            frame[2] = (unsigned char)(payload >> 8);
            frame[3] = (unsigned char)(payload & 0xff);
        }
        for (size_t i = 0; i < payload; i++)
            frame[at + i] = in[header + i] ^ mask[i % 4];
        if (!origin_write(connection, frame, at + payload)) return false;
        connection->used -= header + payload;
        memmove(connection->in, connection->in + header + payload, connection->used);
    }
    return !bad;
}
