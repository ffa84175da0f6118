// web_client: requests of the platform to other servers, those of identity providers: one thread
// with libcurl for all loops. Every request is bounded in time and in the bytes of its answer, goes
// over verified TLS unless it is to loopback, and follows no redirect. Thread-safe.
#ifndef CULVERT_API_OIDC_WEB_CLIENT_H
#define CULVERT_API_OIDC_WEB_CLIENT_H

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct web_client;

struct web_client_options {
    uint64_t timeout_ms; // from beginning to end
    size_t answer_bytes_max;
    unsigned requests_max; // at once; further ones are refused
    const char *ca_file;   // of the servers; empty: the system's
};

struct web_request {
    const char *url;
    struct str form;      // POST with this body; at is NULL: GET
    const char *user;     // Basic authentication, encoded by the caller; NULL: none
    const char *password; //
};

// On the loop that sent it, exactly once, never inside web_client_send(). err: there is no answer,
// status is 0. body is valid during the call.
typedef void (*web_done)(void *arg, const struct error *err, int status, struct str body);

MUST_CHECK enum error_code web_client_create(const struct web_client_options *options, struct web_client **out,
                                             struct error *err);
// Once nothing is under way. NULL is fine.
void web_client_destroy(struct web_client *client);

// Copies the request. The loop must run until on_done was called. ERROR_LIMITED: too many are under
// way.
MUST_CHECK enum error_code web_client_send(struct web_client *client, struct loop *loop,
                                           const struct web_request *request, web_done on_done, void *arg,
                                           struct error *err);

// May it be asked? ERROR_INVALID: not an absolute URL of https (or of http to a loopback address)
// without user and fragment.
MUST_CHECK enum error_code web_url_check(struct str url, struct error *err);

#endif
