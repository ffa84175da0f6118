// call_head: the head of a request that wants to enter a cluster, as its front (the ingress
// listener over HTTP/1.1 or HTTP/2, or the API's `/runtimes/<name>/proxy/`) has read it, and what
// is decided from it alone: where it goes, or with what it is refused. Pure; any thread.
#ifndef CULVERT_SERVER_CALL_HEAD_H
#define CULVERT_SERVER_CALL_HEAD_H

#include "base/error.h"
#include "base/http_header.h"
#include "server/proxy/call_route.h"

// Why its front would not have a request carried.
enum call_refused { CALL_REFUSED_NOT, CALL_REFUSED_TOO_LARGE, CALL_REFUSED_BAD };

// Views stay valid as long as the exchange lives.
struct call_head {
    struct str method, target, host;
    struct str protocol;   // of an upgrade or an extended CONNECT: "websocket", "connect-tcp"; else empty
    struct str expect;     // the Expect field where it has a meaning
    struct str peer;       // the client's address, without port
    struct str request_id; // given by the front; empty: the client's x-request-id, or a new one
    const struct http_header *headers;
    size_t header_count;
    bool complete;    // no body follows
    bool has_length;  // Content-Length holds
    bool on_platform; // came to the platform's own origin: the target alone names the runtime
    bool tls;
    enum call_refused refused;
};

// What a request is answered that is not carried.
struct call_refusal {
    int status;
    const char *code; // of the problem, and culvert-cause
    const char *detail;
    bool last; // no request may follow on its connection
};

// Texts in lower case. False: *refusal says why; its detail may point into err.
bool call_head_admit(const struct call_head *head, struct str tunnel_domain, struct str platform_host,
                     struct call_route *route, struct call_refusal *refusal, struct error *err);
// First value of that name (lower case), or the empty view.
struct str call_head_find(const struct call_head *head, struct str name);

#endif
