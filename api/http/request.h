// api_request: one request on its way through the API: who asks, what for, and the answer that it will get. Made by the
// router, ended by the first api_respond_*(); handlers keep it across asynchronous calls. On its loop. Internal to
// api/.
#ifndef CULVERT_API_HTTP_REQUEST_H
#define CULVERT_API_HTTP_REQUEST_H

#include "api/access/principal.h"
#include "api/api.h"
#include "api/cache/answer_cache.h"
#include "api/compile/plan_cache.h"
#include "api/http/negotiation.h"
#include "base/arena.h"
#include "base/json/json.h"

struct api {
    struct api_options options;
    struct answer_cache *answers;
    struct plan_cache *plans;
};

enum { API_PATH_VALUES_MAX = 3 };

struct api_request {
    struct api *api;
    struct arena *arena; // dies with the request
    struct api_principal principal;
    bool authenticated;
    struct str method, path, query, content_type, content_encoding, request_id; // in the arena
    struct str remote, cookie, sec_fetch_site, user_agent;                      // in the arena
    struct str path_values[API_PATH_VALUES_MAX];                                // of {} in the route's path
    struct http_header headers[API_RESPONSE_HEADERS_MAX - 3];                   // of the answer, in the arena
    size_t header_count;
    struct str body; // in the arena
    const struct api_route *route;
    uint64_t query_cost;      // of the fields that were planned so far
    enum graphql_media media; // that the client wants
    enum content_coding coding;
    bool is_secret;         // the answer may hold credentials: it is not compressed
    unsigned retry_after_s; // with 429 and 503; 0: 1
    api_responded on_responded;
    void *arg;
};

// Of the answer to come; copied.
void api_add_header(struct api_request *request, struct str name, struct str value);
// Every one of these answers and frees the request.
void api_respond(struct api_request *request, int status, const char *content_type, struct str body);
// Compressed as the client accepts it, unless is_secret. allow: the Allow field, or NULL.
void api_respond_graphql(struct api_request *request, int status, const char *allow, struct str body);
void api_respond_json(struct api_request *request, int status, json_t *value); // takes the reference
// application/problem+json (RFC 9457): type, title, status, detail, code, traceId. code: lower-case word.
void api_respond_problem(struct api_request *request, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// 405; methods: "GET, POST".
void api_respond_not_allowed(struct api_request *request, struct str methods);
// The status and code that fit an error of a store.
void api_respond_error(struct api_request *request, const struct error *err);

// The handlers of the API's own routes.
void api_graphql(struct api_request *request);
void api_graphql_schema(struct api_request *request);
void api_events(struct api_request *request);
void api_events_draft(struct api_request *request);

#endif
