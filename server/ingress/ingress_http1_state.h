// ingress_http1_state: what the two halves of the HTTP/1.1 front share: ingress_http1.c reads requests,
// ingress_http1_answer.c writes answers. Private to them.
#ifndef CULVERT_SERVER_INGRESS_HTTP1_STATE_H
#define CULVERT_SERVER_INGRESS_HTTP1_STATE_H

#include "base/http1/http1.h"
#include "base/strbuf.h"
#include "server/ingress/ingress_connection.h"
#include "server/proxy/call_exchange.h"
#include "server/proxy/request_id.h"

enum {
    INGRESS_INPUT_BYTES = 64 * 1024, // read ahead of what can be used; then reading pauses
    INGRESS_KEPT_BYTES_MAX = 2048,   // a buffer no larger than that is kept between requests
    INGRESS_TRAILER_LINES_MAX = 32,  // of a request
};

enum ingress_http1_state {
    INGRESS_HTTP1_IDLE,     // nothing of the next request has come
    INGRESS_HTTP1_HEAD,     // a part of a head has come
    INGRESS_HTTP1_EXCHANGE, // a request is being carried out
};

struct ingress_http1 {
    struct ingress_connection *connection;
    enum ingress_http1_state state;
    uint64_t since_ms;   // of the state
    uint64_t read_at_ms; // when the client last sent something
    unsigned requests;
    struct strbuf in;        // arrived, not used
    struct strbuf head_text; // what the head's views point into
    struct http1_head head;
    struct call_exchange *exchange;
    bool last;                   // no request follows
    unsigned home, answers_away; // the loop that answered last, and how often in a row, if that is another one

    // The request's body.
    uint64_t body_left;
    struct http1_chunked chunked;
    struct strbuf trailer_text;

    // The answer.
    bool raw;
    bool client_blocked;
    enum http1_body answer_body;
};

// How answers leave; the argument is the front.
extern const struct call_front ingress_http1_front;

// Writes a whole problem answer for a request that has no exchange (a head that could not be read), and ends.
void ingress_http1_refuse(struct ingress_http1 *http1, int status, const char *code, const char *detail);

#endif
