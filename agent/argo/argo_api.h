// argo_api: reads Argo CD's own API (argocd-server) with the token of an account: GET requests that
// are bounded in number, bytes and time, and why they fail, as a finding with cause and cure. After
// a failure of the server itself it pauses, longer each time. The token is read from its file, sent
// to that server alone, and in no log, report or message. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_ARGO_API_H
#define CULVERT_AGENT_ARGO_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct argo_api;
struct argo_request;
struct kube_transport;

enum { ARGO_API_REQUESTS_MAX = 16 };

struct argo_api_options {
    struct loop *loop;
    const char *url;                        // https://host[:port][/prefix]
    const char *token_file, *ca_file;       // ca_file "": the CAs of the system
    uint64_t timeout_ms;                    // of a request
    uint64_t bytes_max;                     // of an answer
    unsigned requests_max;                  // at a time; at most ARGO_API_REQUESTS_MAX
    const struct kube_transport *transport; // NULL: HTTP; agent/kube/kube_client.h
};

// NULL with *err when url or ca_file cannot be used.
struct argo_api *argo_api_create(const struct argo_api_options *options, struct error *err);
void argo_api_destroy(struct argo_api *api); // NULL is fine; no callbacks

// Whether a request may be started now.
bool argo_api_is_free(const struct argo_api *api, uint64_t now_ms);
// on_done runs once, later: value is the decoded body of a 200, borrowed; else NULL with the
// status, 0: there was no answer. NULL: no request may be started now.
struct argo_request *argo_api_get(struct argo_api *api, const char *path,
                                  void (*on_done)(void *arg, int status, json_t *value), void *arg);
void argo_request_cancel(struct argo_request *request); // no callback follows; NULL is fine

// Appends what is wrong to findings (agent/reports/findings.h).
void argo_api_findings(const struct argo_api *api, json_t *findings);
// text as a part of a path or query: what is not plain is escaped. mem_free.
char *argo_api_escape(struct str text);

#endif
