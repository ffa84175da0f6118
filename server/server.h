// server: the running process: what its workers share, and its life from start to drained. Made and destroyed by main
// on the main thread; workers read it from theirs.
#ifndef CULVERT_SERVER_SERVER_H
#define CULVERT_SERVER_SERVER_H

#include <stdatomic.h>

#include "api/graphql/schema.h"
#include "api/live/change.h"
#include "api/rest/stored_route.h"
#include "base/connection_limiter.h"
#include "base/deployment_key.h"
#include "base/error.h"
#include "base/quota.h"
#include "modules/modules.h"
#include "server/chores/failed_sign_ins.h"
#include "server/chores/runtime_tokens.h"
#include "server/config/config.h"
#include "server/peer/peer_tls.h"
#include "server/proxy/trusted_proxies.h"
#include "server/tls/tls_context.h"
#include "tunnel/broker.h"

enum { SERVER_WORKERS_MAX = 16 };

struct enrollments;
struct manifest_known;
struct oidc;
struct rabbitmq;
struct redaction;
struct request_rates;
struct ui_files;
struct worker;

struct server {
    const struct config *config;
    struct deployment_key *deployment_key; // see base/deployment_key.h; workers derive from it
    struct redaction *redaction;           // of objects that come over HTTP
    char *database_conninfo;               // secrets resolved
    char *redis_url;
    struct rabbitmq *rabbitmq;        // NULL: the bus is local
    struct manifest_known *manifests; // which of them PostgreSQL has; all loops ask and tell
    _Atomic uint64_t database_losses; // of connections, of all loops
    struct ui_files *ui;              // NULL: not served
    struct gql_schema *schema;
    struct stored_routes *stored_routes;
    json_t *documents;            // graphql.documents_file
    struct module_tables modules; // what they give
    struct runtime_tokens *tokens;
    struct oidc *oidc; // identity providers
    struct failed_sign_ins *failed_sign_ins;
    struct enrollments *enrollments;
    struct request_rates *request_rates;
    uint64_t started_ms;
    struct tunnel_broker *broker;
    struct quota api_connections, ingress_connections; // of all loops together
    struct trusted_proxies proxies;
    struct quota live_streams;
    struct connection_limiter *live_accounts, *live_users;
    char origin[CHANGE_ORIGIN_BYTES]; // of this process in messages to other replicas
    struct connection_limiter *api_addresses, *ingress_addresses, *ingress_accounts; // NULL: no cap
    struct peer_tls peer_tls;                  // of the hop; empty when this is the only replica
    struct tls_context *api_tls, *ingress_tls; // swapped on the main loop; workers get the new one by mailbox
    struct worker *workers[SERVER_WORKERS_MAX];
    unsigned worker_count;
    bool is_up; // it served: main's
    atomic_bool draining;
    atomic_bool sessions_may_open; // see server/sessions/sessions.h
};

// Builds and starts everything; on an error nothing is left.
struct server *server_create(const struct config *config, struct error *err);
// Thread of main. Stops taking work, finishes what is in flight (config's drain settings), then ends all loops and
// returns.
void server_drain(struct server *server);
void server_destroy(struct server *server); // after server_drain

// Main loop: reads certificates and keys again. On an error the old ones stay.
MUST_CHECK enum error_code server_reload(struct server *server, struct error *err);

#endif
