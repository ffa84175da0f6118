// kube_client: requests to one Kubernetes API, streamed, on the agent's loop (libcurl multi;
// HTTP/1.1; the server's certificate is verified; no redirects, no proxies, no cookies). Everything
// reads but agent/operations/, which runs what operations.allowed permits. Owned by the reporter;
// one loop.
#ifndef CULVERT_AGENT_KUBE_CLIENT_H
#define CULVERT_AGENT_KUBE_CLIENT_H

#include <stdint.h>

#include "agent/kube/kube_config.h"
#include "base/error.h"
#include "base/loop/loop.h"

struct kube_client;
struct kube_request;

enum { KUBE_CLIENT_REQUESTS_MAX = 512, KUBE_CLIENT_CONNECTIONS_MAX = 128 };

// config is borrowed and outlives the client. NULL with *err when libcurl or the credentials cannot be used.
struct kube_client *kube_client_create(struct loop *loop, struct kube_config *config, struct error *err);
// Another one with the same configuration and loop, and limits of its own.
struct kube_client *kube_client_create_beside(const struct kube_client *client, struct error *err);
// Ends every request without callbacks. Not inside them.
void kube_client_close(struct kube_client *client);

enum kube_body_verdict {
    KUBE_BODY_TAKEN,
    KUBE_BODY_PAUSE, // nothing was taken: offer the same bytes again after kube_request_resume()
    KUBE_BODY_STOP,  // enough: the request ends with ERROR_CANCELLED
};

struct kube_request_options {
    const char *path;    // with its query, from "/" (copied)
    uint64_t timeout_ms; // of the whole exchange; 0: none (the caller watches over it)
    // A change: PATCH or DELETE; NULL: GET. It is sent at most once, over a connection of its own.
    const char *method;       // constant
    const char *content_type; // constant
    struct str body;          // copied
    void *arg;
    // Body bytes of an answer with status 200 to a GET; other bodies are not handed out (they may
    // quote what was asked for).
    enum kube_body_verdict (*on_body)(void *arg, const char *at, size_t len);
    // The last callback. status: 0 when there was no answer; err is NULL when the exchange is complete, whatever
    // the status; ERROR_NOT_FOUND: the server's name does not resolve, ERROR_UNAVAILABLE: no connection,
    // ERROR_UNAUTHENTICATED: its certificate is not trusted, ERROR_FORBIDDEN: there is no credential to send,
    // ERROR_TIMEOUT, ERROR_CANCELLED: stopped by on_body, ERROR_IO: anything else. The request is gone when this
    // returns.
    void (*on_done)(void *arg, int status, const struct error *err);
};

// Starts in the loop's next turn. NULL when there are too many requests already.
struct kube_request *kube_client_get(struct kube_client *client, const struct kube_request_options *options);
// No callback follows. Allowed inside the request's own callbacks, but not in on_done.
void kube_request_cancel(struct kube_request *request);
void kube_request_resume(struct kube_request *request);
// By how much this machine's clock is ahead of the server's, from the Date of its last answer (to within a second and
// the way); 0: unknown.
int64_t kube_client_clock_skew_s(const struct kube_client *client);
int kube_request_status(const struct kube_request *request); // of the answer that has begun, 0: none has

// What carries requests in place of HTTP: set in the configuration, which it outlives. For
// simulations.
struct kube_transport {
    // path is valid during the call. The answer comes with kube_request_answer() and
    // kube_request_end(), later.
    void (*begin)(void *ctx, struct kube_request *request, const char *path);
    void (*resume)(void *ctx, struct kube_request *request); // bytes that were not taken may be offered again
    void (*cancel)(void *ctx, struct kube_request *request); // it is gone when this returns
    void *ctx;
};
// Bytes of the body, as on_body takes them; a request that is to stop gives KUBE_BODY_STOP: it ends
// with that. No bytes: the head of the answer.
enum kube_body_verdict kube_request_answer(struct kube_request *request, int status, const char *at, size_t len);
void kube_request_end(struct kube_request *request, const struct error *err); // as on_done

#endif
