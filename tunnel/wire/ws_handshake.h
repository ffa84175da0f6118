// ws_handshake: the client's side of the WebSocket opening handshake (RFC 6455 section 4): the request's text and the
// check of the answer. Pure but for the random key; any thread.
#ifndef CULVERT_TUNNEL_WIRE_WS_HANDSHAKE_H
#define CULVERT_TUNNEL_WIRE_WS_HANDSHAKE_H

#include <stdint.h>

#include "base/error.h"
#include "base/http1/http1.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tunnel/wire/proof.h"

enum {
    WS_HANDSHAKE_KEY_BYTES = 25,           // 16 random bytes in base64, and NUL
    WS_HANDSHAKE_ACCEPT_BYTES = 29,        // SHA-1 in base64, and NUL
    WS_HANDSHAKE_ANSWER_BYTES_MAX = 16384, // head of the answer
};

struct ws_handshake_request {
    struct str host;        // value of Host, with the port when it is not the scheme's own
    struct str path;        // origin-form
    struct str subprotocol; // empty: none is asked for
    const struct http_header *headers;
    size_t header_count;
};

struct ws_handshake_answer {
    int status;                   // 101: open; otherwise why not
    int64_t retry_after_ms;       // Retry-After in seconds form, or -1
    char proof[WIRE_PROOF_BYTES]; // with 101: that the server knows the token (tunnel/wire/proof.h), or empty
    char subprotocol[64];         // what the server chose (or offers, with 426)
};

void ws_handshake_key(char out[WS_HANDSHAKE_KEY_BYTES]);
void ws_handshake_accept(struct str key, char out[WS_HANDSHAKE_ACCEPT_BYTES]);

// Appends the request. ERROR_INVALID: a value that may not stand in a header.
MUST_CHECK enum error_code ws_handshake_write(const struct ws_handshake_request *request, struct str key,
                                              struct strbuf *out, struct error *err);
// One more header for a request that was written.
MUST_CHECK enum error_code ws_handshake_add(struct strbuf *request, struct str name, struct str value,
                                            struct error *err);
// Reads the answer's head. ERROR_AGAIN: incomplete. ERROR_NONE with a status other than 101: refused (no more bytes are
// of interest). ERROR_PROTOCOL: a 101 that breaks section 4.1 (accept, upgrade, subprotocol, an extension nobody
// asked for). *out_bytes: length of the head; frames follow it.
MUST_CHECK enum error_code ws_handshake_read(const char *at, size_t len, struct str key, struct str subprotocol,
                                             struct ws_handshake_answer *out, size_t *out_bytes, struct error *err);
// The checks of a 101 alone, for a head that was parsed elsewhere.
MUST_CHECK enum error_code ws_handshake_check(const struct http1_head *head, struct str key, struct error *err);

#endif
