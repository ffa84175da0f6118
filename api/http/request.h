// api_request: one request on its way through the API: who asks, what for, and the answer that it will get. Made by the
// router, ended by the first api_respond_*(); handlers keep it across asynchronous calls. On its loop. Internal to
// api/.
#ifndef CULVERT_API_HTTP_REQUEST_H
#define CULVERT_API_HTTP_REQUEST_H

#include "api/access/principal.h"
#include "api/api.h"
#include "api/cache/answer_cache.h"
#include "api/compile/count_cache.h"
#include "api/compile/plan_cache.h"
#include "api/graphql/document_cache.h"
#include "api/http/negotiation.h"
#include "base/arena.h"
#include "base/json/json.h"

struct api {
    struct api_options options;
    struct answer_cache *answers;
    struct plan_cache *plans;
    struct document_cache *documents;
    struct count_cache *counts;
    struct live *live;
};

enum { API_PATH_VALUES_MAX = 3 };

struct api_request {
    struct api *api;
    struct arena *arena; // dies with the request
    struct api_principal principal;
    struct access_rules *rules; // that limit it; NULL: none do
    bool authenticated;
    struct str method, path, query, content_type, content_encoding, request_id; // in the arena
    struct str remote, cookie, sec_fetch_site, user_agent, last_event_id;       // in the arena
    struct str if_none_match, idempotency_key, mcp_protocol_version;            // in the arena
    struct str path_values[API_PATH_VALUES_MAX];                                // of {} in the route's path
    struct http_header headers[API_RESPONSE_HEADERS_MAX - 3];                   // of the answer, in the arena
    size_t header_count;
    struct str body; // in the arena
    const struct api_route *route;
    uint64_t query_cost;      // of the fields that were planned so far
    enum graphql_media media; // that the client wants
    enum content_coding coding;
    struct live_event *live; // of a subscription: the event that is resolved
    bool is_secret;          // the answer may hold credentials: it is not compressed
    unsigned retry_after_s;  // with 429 and 503; 0: 1
    api_responded on_responded;
    void *arg;
};

// Of the answer to come; copied.
void api_add_header(struct api_request *request, struct str name, struct str value);
// Every one of these answers and frees the request.
void api_respond(struct api_request *request, int status, const char *content_type, struct str body);
// Compressed as the client accepts it, unless is_secret. allow: the Allow field, or NULL.
void api_respond_graphql(struct api_request *request, int status, const char *allow, struct str body);
// Of any type, compressed in the same way.
void api_respond_compressed(struct api_request *request, int status, const char *content_type, struct str body);
void api_respond_json(struct api_request *request, int status, json_t *value); // takes the reference
// application/problem+json (RFC 9457): type, title, status, detail, code, traceId. code: lower-case word.
void api_respond_problem(struct api_request *request, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// text/event-stream, see api_http_response.on_stream.
void api_respond_stream(struct api_request *request, void (*on_stream)(void *arg, struct api_stream *stream),
                        void *arg);
// 405; methods: "GET, POST".
void api_respond_not_allowed(struct api_request *request, struct str methods);
// The status and code that fit an error of a store.
void api_respond_error(struct api_request *request, const struct error *err);

// Executes query and variables of it as this caller; the rest is filled in. Answers nothing by
// itself.
struct gql_request;
void api_execute(struct api_request *request, struct gql_request *execution,
                 void (*on_answered)(void *arg, int status, struct str body), void *arg);

// The handlers of the API's own routes.
void api_graphql(struct api_request *request);
void api_graphql_schema(struct api_request *request);
void api_events(struct api_request *request);
void api_events_draft(struct api_request *request);

#endif
