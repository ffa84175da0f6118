// api: the HTTP API of the platform without its HTTP: routes, credentials, GraphQL, REST, event
// intake. One `api` a loop; it gets complete requests from a listener and gives complete answers.
// Everything on its loop.
#ifndef CULVERT_API_API_H
#define CULVERT_API_API_H

#include <jansson.h>
#include <stdint.h>

#include "api/access/auth.h"
#include "api/graphql/schema.h"
#include "base/config/config.h"
#include "base/error.h"
#include "base/http1/http_problem.h"
#include "base/purpose_key.h"
#include "storage/pg/pg.h"
#include "storage/redis/redis.h"
#include "storage/reports/report_store.h"
#include "tunnel/wire/redaction.h"

struct api;
struct api_route;
struct stored_routes;
struct gql_resolver;
struct oidc;
struct live;
struct live_options;

// refused: how many of the reports were kept out for good, with the reason of the first.
typedef void (*api_reports_done)(void *arg, const struct error *err, size_t refused, const char *detail);

struct api_options {
    struct loop *loop;
    struct pg *pg;
    struct redis *redis; // where answers are kept; NULL: nowhere
    struct api_auth *auth;
    const struct gql_schema *schema; // shared by all loops, outlives them
    struct str sdl;                  // the text it was made of, which is published
    // Of the modules; both outlive the api. Root fields and who may use them (enum api_access), and
    // paths of REST.
    const struct gql_resolver *resolvers;
    size_t resolver_count;
    const struct api_route *routes;
    size_t route_count;
    const struct stored_routes *stored; // outlives the api; NULL: none
    struct gql_limits limits;
    size_t body_bytes_max, events_bytes_max, answer_bytes_max;
    uint64_t query_cost_max; // rows times their cost that one query may ask for; 0: any number
    size_t plans_max;        // compiled selections that are kept
    size_t documents_max;    // that clients may name by their hash, and are kept
    const json_t *documents; // those of a file; outlives the api; NULL: none
    bool documents_only;     // no others are executed
    // Totals, fences and facets that are kept, and for how long: api/compile/count_cache.h.
    size_t counts_max;
    uint64_t count_interval_ms;
    // Answers of these sizes are compressed where the client accepts it.
    size_t compress_bytes_min, compress_bytes_max;
    // Of answers that are kept, see api/cache/answer_cache.h.
    struct purpose_key cache_key;
    size_t cache_answer_bytes_max;
    uint64_t cache_slower_than_us, cache_ttl_ms, cache_patience_ms;
    const struct redaction *redaction; // what is kept of the objects that reporters send; outlives the api
    // Reports that came over HTTP: done after COMMIT.
    void (*submit_reports)(void *ctx, const struct report *reports, size_t count, api_reports_done done, void *arg);
    // A request came with a credential of this account.
    void (*on_call)(void *ctx, const char *account_id);
    // A runtime token was made, or a runtime deleted: whoever holds tokens in memory should look
    // again.
    void (*on_tokens_changed)(void *ctx);
    // An operation was queued (modules/operations): it may be sent at once.
    void (*on_operation)(void *ctx);
    void *ctx;
    const struct live_options *live; // of subscriptions; loop is the API's. Copied
    const struct oidc *oidc;         // identity providers; outlives the api; NULL: none
    struct request_rates *rates;     // outlives the api; NULL: no limit
    const struct config *config;     // the settings; modules read the sections that are theirs. Outlives the api
};

struct api *api_create(const struct api_options *options);
void api_destroy(struct api *api); // after pg was closed, so that nothing is under way, and before redis is

// Views valid until the call returns.
struct api_http_request {
    struct str method, path, query; // path without the query
    struct str authorization, x_access_token, content_type, content_encoding, accept, accept_encoding;
    struct str request_id, remote; // remote: the client's address
    struct str cookie, csrf_token, sec_fetch_site, user_agent, last_event_id;
    struct str if_none_match, idempotency_key, mcp_protocol_version;
    struct str body;
};

enum { API_RESPONSE_HEADERS_MAX = 6 };

// The body of a response that goes on for as long as it likes. The listener's, on its loop.
struct api_stream {
    // Not empty; copied where need be. Only when ready: on_ready says that the piece before is with
    // the kernel, never inside this call.
    void (*write)(struct api_stream *stream, struct str piece);
    // The end: complete, only when ready; or cut, at any time. The pointer is dead afterwards.
    void (*end)(struct api_stream *stream, bool is_cut);
    // Set by who writes. on_gone: the client left, and the pointer is dead afterwards.
    void (*on_ready)(void *arg);
    void (*on_gone)(void *arg);
    void *arg;
};

// Valid during the call.
struct api_http_response {
    int status;
    const char *content_type;
    struct http_header headers[API_RESPONSE_HEADERS_MAX];
    size_t header_count;
    struct str body;
    const struct http_problem *problem; // in place of content type and body; without traceId. NULL: none
    // In place of the body: the stream, before on_ready of its head; NULL: the client has left.
    void (*on_stream)(void *arg, struct api_stream *stream);
    void *stream_arg;
};

typedef void (*api_responded)(void *arg, const struct api_http_response *response);

// Of its subscriptions; valid as long as the api.
struct live *api_live(struct api *api);

// Is this path the API's? (Others are the listener's to answer.)
bool api_has_path(struct str path);
// The largest body that this path takes.
size_t api_body_bytes_max(const struct api *api, struct str path);
// on_responded once, at once or later. A client that leaves does not stop what was begun: the
// listener drops the answer.
void api_handle(struct api *api, const struct api_http_request *request, api_responded on_responded, void *arg);

#endif
