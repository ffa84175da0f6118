// h2o_listener: a libh2o server on one loop: HTTP/1.1 only, with or without TLS. It owns the
// listener, the contexts and the limits that h2o offers, and hides h2o from everybody else: a
// request is a `listener_request`, answered once, whole or as a stream. HTTP/2 stays off: neither
// in ALPN nor by upgrade. Everything on its loop.
#ifndef CULVERT_SERVER_HTTP_H2O_LISTENER_H
#define CULVERT_SERVER_HTTP_H2O_LISTENER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/http1/http_problem.h"
#include "base/http_header.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct h2o_listener;
struct listener_request;

struct h2o_listener_options {
    const char *name;         // "api", "admin": in metrics and logs
    const char *listen;       // host:port
    SSL_CTX *tls;             // NULL: plain. Shared: reference counted
    uint64_t hsts_max_age_ms; // Strict-Transport-Security where there is TLS; 0: none
    uint64_t request_timeout_ms;
    size_t body_bytes_max;
    size_t head_bytes_max;                // 431 beyond it; 0: h2o's own limit
    size_t connections_max;               // of this loop, when `connections` is NULL; 0: no cap
    struct quota *connections;            // that the process may have open
    struct connection_limiter *addresses; // of the process; NULL: no cap
    const char *trusted_proxies;          // networks without that cap (see trusted_proxies.h); NULL: none
    // A complete request. Answer now or later, exactly once, unless on_gone came first.
    void (*on_request)(void *ctx, struct listener_request *request);
    void *ctx;
};

struct h2o_listener *h2o_listener_create(struct loop *loop, const struct h2o_listener_options *options,
                                         struct error *err);
uint16_t h2o_listener_port(const struct h2o_listener *listener);
// Takes no more connections; those that are idle end, the others after their answer. Serves on, and
// says `Connection: close` with every answer, so that clients make other connections before it
// stops.
void h2o_listener_wind_down(struct h2o_listener *listener);
void h2o_listener_stop_accepting(struct h2o_listener *listener);
bool h2o_listener_is_idle(const struct h2o_listener *listener); // no request is being answered
void h2o_listener_set_tls(struct h2o_listener *listener, SSL_CTX *tls);
// Closes what is left; on_closed once all handles are closed, then h2o_listener_destroy() outside
// any callback.
void h2o_listener_close(struct h2o_listener *listener, loop_fn on_closed, void *arg);
void h2o_listener_destroy(struct h2o_listener *listener);

// ---- one request: views valid until it is answered or gone --------------------------------------
struct str listener_request_method(const struct listener_request *request);
struct str listener_request_target(const struct listener_request *request); // path and query as sent
struct str listener_request_host(const struct listener_request *request);
struct str listener_request_body(const struct listener_request *request);
bool listener_request_has_body(const struct listener_request *request);       // also an empty one
struct str listener_request_trailers(const struct listener_request *request); // for http1_parse_trailers()
bool listener_request_is_http11(const struct listener_request *request);      // else 1.0
// name in lower case. A field that comes twice has two meanings and counts as absent.
struct str listener_request_header(const struct listener_request *request, struct str name);
size_t listener_request_header_count(const struct listener_request *request);
struct http_header listener_request_header_at(const struct listener_request *request, size_t i);
struct str listener_request_peer(const struct listener_request *request); // address without port
struct str listener_request_id(const struct listener_request *request);   // x-request-id, or one made here

// The client left before the answer was complete: on_gone(arg) runs once, and the pointer is dead
// afterwards. watch: notice it also while nothing is written (costs a descriptor).
void listener_request_on_gone(struct listener_request *request, loop_fn on_gone, void *arg, bool watch);

// Counts the request's connection for this account until it ends, or calls for another one. False:
// the account has too many. accounts NULL: no cap.
bool listener_request_take_account(struct listener_request *request, struct connection_limiter *accounts,
                                   struct str account_id);
// No request is read behind this one.
void listener_request_be_last(struct listener_request *request);

// The whole answer. headers may be NULL. The request is over.
void listener_request_answer(struct listener_request *request, int status, const char *content_type,
                             const struct http_header *headers, size_t header_count, struct str body);

// The same with nothing but these header fields, its media type and caching among them.
void listener_request_answer_bare(struct listener_request *request, int status, const struct http_header *headers,
                                  size_t header_count, struct str body);

// A problem with its own header fields and more; request_id is filled in. The request is over.
void listener_request_problem(struct listener_request *request, const struct http_problem *problem,
                              const struct http_header *more, size_t more_count);

// The answer as a stream: head, then pieces. After start and after each write,
// wait for on_ready (never inside these calls) before the next write or the end. content_length
// UINT64_MAX: unknown (chunked).
void listener_request_start(struct listener_request *request, int status, uint64_t content_length,
                            const struct http_header *headers, size_t header_count, loop_fn on_ready, void *arg);
// piece: not empty; copied or encrypted inside the call.
void listener_request_write(struct listener_request *request, struct str piece);
void listener_request_end(struct listener_request *request);   // only when ready; the request is over
void listener_request_abort(struct listener_request *request); // any time after start: cuts the connection

#endif
