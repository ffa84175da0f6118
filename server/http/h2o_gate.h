// h2o_gate: what stands between a socket and libh2o's HTTP/1 server. h2o reads heads leniently and whole heads of some
// 400 KiB; so nothing reaches it but one complete request at a time that base/http1/http1.h has read first, with the
// meaning that base/http1/http1.h gave it: chunked bodies arrive unchunked, with a Content-Length, and what came behind
// a request waits here until that one is answered. A request that is refused is replaced by one of our own making,
// which the listener's handler answers with the refusal before it closes. Private to h2o_*.c.
//
// How: h2o keeps its callbacks in fields of its socket. Whenever h2o could have begun to read, that is after every call
// into it and after every write, h2o_gate_hold() puts the gate's own callbacks in their place and keeps h2o's.
#ifndef CULVERT_SERVER_HTTP_H2O_GATE_H
#define CULVERT_SERVER_HTTP_H2O_GATE_H

#include <h2o.h>
#include <h2o/http1.h>

#include "base/http1/http1.h"
#include "base/strbuf.h"
#include "server/proxy/request_id.h"

struct h2o_gate_options {
    size_t head_bytes_max; // 431 beyond it; 0: HTTP1_HEAD_BYTES_MAX
    size_t body_bytes_max; // 413 beyond it
};

enum h2o_gate_state {
    H2O_GATE_HEAD,   // of the next request
    H2O_GATE_BODY,   // its body, until it is whole
    H2O_GATE_PASSED, // h2o has it, until it is answered
    H2O_GATE_REFUSED // no more is read
};

struct h2o_gate {
    struct h2o_gate_options options;
    uv_stream_t *stream;  // of the socket; set before it is opened
    h2o_socket_t *socket; // NULL before it is opened and once h2o closed it
    h2o_socket_cb h2o_read, h2o_write;
    enum h2o_gate_state state;
    bool ticket;           // h2o may handle one request
    bool continuing;       // "100 Continue" is being written
    struct strbuf pending; // came behind the request that is being answered
    // The request whose body is being read. In the socket's input: its head, the body as far as it is known, what was
    // not looked at.
    enum http1_body body;
    struct http1_chunked chunked;
    struct strbuf trailers; // the text of a chunked body's trailer section, until its request is answered
    size_t head_bytes, body_bytes;
    uint64_t since_ms;  // uv_now(): since when nothing, or a request that is not whole, is there
    size_t looked_at;   // bytes of the input that need no other look: of the head while it is incomplete
    struct strbuf head; // the head as h2o is to see it, without its end; empty: as it came
    bool has_body;
    bool keep_alive;                   // what the request asks for
    int refusal;                       // status, 0: none
    const char *code;                  // of the refusal, for machines
    struct error reason;               // for people
    char request_id[REQUEST_ID_BYTES]; // of the refused request, where its head could be read and has one
    void (*on_closed)(void *ctx);      // h2o closed the socket
    void (*on_refused)(void *ctx);
    void *ctx;
};

// A socket whose TLS is up, or plain: gives it to h2o's HTTP/1 server and begins to read.
void h2o_gate_open(struct h2o_gate *gate, h2o_accept_ctx_t *accept, h2o_socket_t *socket);
// After every call into h2o that may write or end a request. The gate lives on when h2o closed the socket in it.
void h2o_gate_hold(struct h2o_gate *gate);
void h2o_gate_finish(struct h2o_gate *gate);
// A request that is not whole after that time is refused (408); a connection without one ends without a word.
void h2o_gate_expire(struct h2o_gate *gate, uint64_t now_ms, uint64_t limit_ms);
// The gate of a request of h2o's.
struct h2o_gate *h2o_gate_of(h2o_req_t *req);
// Did this request come through the gate? Once for each that was passed; without one nothing may be answered but 400.
bool h2o_gate_take_ticket(struct h2o_gate *gate);

#endif
