// broker: the platform's side of every tunnel. It accepts agents (WSS), keeps one live session a runtime, and
// carries calls through them. Storage, Redis and intake come as callbacks: the broker knows none of them.
//
// Threads: one `tunnel_node` a loop. A session lives on the loop that accepted it; a call is made on any loop and
// crosses by mailbox when the session lives elsewhere. Callbacks of a node or of a call run on the loop that
// made it. Public functions are called on the loop of their object, unless they say otherwise.
#ifndef CULVERT_TUNNEL_BROKER_H
#define CULVERT_TUNNEL_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/http_header.h"
#include "base/id.h"
#include "base/loop/loop.h"
#include "base/runtime_key.h"
#include "base/str.h"
#include "tunnel/wire/report.h"

struct tunnel_broker; // the process: what the nodes share
struct tunnel_node;   // one loop's part
struct tunnel_call;   // one call, one HTTP/2 stream inside a session

// ---- sessions ------------------------------------------------------------------------------------------------

// What an agent shows to be let in. Views into its request.
struct tunnel_credential {
    struct str token;
    const uint8_t *binding; // the token is sealed for this connection (tunnel/wire/proof.h); NULL: it is said as it is
    const char *remote;     // the client's address; NULL: none is known
    struct str runtime;     // the name that the agent has for its runtime
    // If the runtime may have to be created (tunnel/wire/handshake.h), else empty. In the form of
    // token.
    struct str enrollment, enrollment_hash;
};

// Who an agent turned out to be. Copied by whoever keeps it.
struct tunnel_identity {
    char account_id[64];
    char runtime[128];
    char runtime_id[ID_UUID_BYTES];
    char token_id[32];
    uint8_t token_sha256[ID_SHA256_BYTES]; // key of wire_identity_sign
};

// Names a session across asynchronous gaps and threads: never a pointer.
struct tunnel_session_ref {
    unsigned node;
    uint64_t id;
};

// Why a session is over.
enum tunnel_ending {
    TUNNEL_ENDING_LOST,     // its connection went without a word
    TUNNEL_ENDING_SILENT,   // the agent answered no ping
    TUNNEL_ENDING_CLOSED,   // by the agent
    TUNNEL_ENDING_DRAINED,  // this replica stops
    TUNNEL_ENDING_PROTOCOL, // the agent broke the rules
    TUNNEL_ENDING_REVOKED,  // its token is not valid any more, or it was never let in
    TUNNEL_ENDING_SUPERSEDED,
};
const char *tunnel_ending_name(enum tunnel_ending ending); // as users see it: "PINGS_MISSED"

struct tunnel_session_info {
    struct tunnel_session_ref ref;
    struct tunnel_identity identity;
    uint64_t epoch; // 0 until on_session_opening was answered
    bool stands_by; // it was told to before, and asks again
    char instance_id[128], boot_id[64], agent_version[64];
    char remote[64];
    bool binds_identities;   // the agent takes identities that are bound to their call
    bool takes_operations;   // the agent knows WIRE_CONTROL_OPERATION
    int64_t connected_at_ms; // wall
    uint64_t rtt_us, bytes_in, bytes_out;
    unsigned streams_open;
    enum tunnel_ending ending; // in on_session_closed
    uint64_t silent_ms;        // there, too: since the agent was heard
};

struct wire_control;
struct tunnel_carrier; // see "calls carried elsewhere"

struct tunnel_options {
    char *listen; // host:port of the tunnel listener; every node listens with SO_REUSEPORT
    const char *tls_certificate_file, *tls_key_file;
    unsigned sessions_max;               // of the process
    unsigned sessions_per_address;       // of them, from one address (IPv6: a /64); 0: no cap of its own
    unsigned streams_max;                // per session
    uint64_t ping_after_ms;              // 10,000
    uint64_t dead_after_ms;              // 5,000 more
    uint64_t say_after_ms;               // a word to agents that say some, 0: before they would ask
    uint64_t head_timeout_ms;            // response head, 60,000
    uint64_t buffered_bytes_max;         // per session, 8 MiB: windows grow within it; refused at twice
    uint64_t node_buffered_bytes_max;    // all sessions of a node: likewise
    uint64_t account_buffered_bytes_max; // all sessions of an account on a node, refused at once; 0: no cap
    unsigned handshakes_per_second;      // token bucket per node
    unsigned handshakes_per_address;     // at once, of one client address (as above); 0: as many as there are places
    // May agents be let in yet? Until then they wait in the kernel's queue. Thread-safe; NULL: they may.
    bool (*may_come)(void *ctx);
    // Does this address (numeric) speak for many, so that sessions_per_address is not for it? NULL: none does.
    bool (*is_proxy)(void *ctx, struct str address);
    void *ctx; // of the callbacks below; shared by all nodes

    // Decides about a credential before 101, at once, from memory. ERROR_UNAUTHENTICATED -> 401, ERROR_FORBIDDEN ->
    // 403, ERROR_LIMITED -> 429 (the reason goes to the agent with each of the three), ERROR_UNAVAILABLE -> 503 with
    // Retry-After: 1 (not known yet: ask again), ERROR_AGAIN -> the same with the reason.
    enum error_code (*authenticate)(void *ctx, struct tunnel_node *node, const struct tunnel_credential *credential,
                                    struct tunnel_identity *out, struct error *err);
    // Is the token of a session that is listed now still valid? Thread-safe, at once, from the same memory: whoever
    // takes a token out of that calls tunnel_broker_revoke() only then, so that one of the two finds the session. NULL:
    // it is.
    bool (*is_valid)(void *ctx, const struct tunnel_identity *identity);
    // A new session, or one that stands by, wants an epoch: answer later with tunnel_session_opened(),
    // tunnel_session_stands_by() or tunnel_session_refused().
    void (*on_session_opening)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session);
    // Carries calls from now on.
    void (*on_session_open)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session);
    // Gets no calls any more because its agent leaves; on_session_closed follows when those in flight are done. May be
    // NULL. Not for one that a newer session took over from.
    void (*on_session_retired)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session);
    void (*on_session_closed)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                              const char *reason);
    // How far the agent is behind its cluster (tunnel/wire/control.h). May be NULL.
    void (*on_session_lag)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                           uint64_t behind_ms, uint64_t blind_ms);
    // What the agent reports of an operation (WIRE_CONTROL_OPERATION_STATE). May be NULL.
    void (*on_session_operation)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                                 const struct wire_control *control);
    // One decoded record, valid for the call. Return false to stop reading (back-pressure); tunnel_reports_resume()
    // goes on with the NEXT record: a record that was handed over counts as taken.
    bool (*on_report)(void *ctx, struct tunnel_node *node, const struct tunnel_session_info *session,
                      const struct wire_report *report);
    const struct tunnel_carrier *carrier; // of calls whose runtime has no session here; NULL: they fail. Outlives it
};

struct tunnel_broker *tunnel_broker_create(const struct tunnel_options *options, struct error *err);
void tunnel_broker_destroy(struct tunnel_broker *broker); // after its nodes

// On the node's loop. Opens the listener.
struct tunnel_node *tunnel_node_create(struct tunnel_broker *broker, struct loop *loop, struct error *err);
unsigned tunnel_node_index(const struct tunnel_node *node);
struct loop *tunnel_node_loop(const struct tunnel_node *node);
// Stops accepting, sends DRAIN to agents over spread_ms, closes when streams have ended or deadline_ms has
// passed; on_done runs once, on the loop. Then tunnel_node_destroy.
void tunnel_node_drain(struct tunnel_node *node, uint64_t spread_ms, uint64_t deadline_ms, loop_fn on_done, void *arg);
void tunnel_node_destroy(struct tunnel_node *node);
// Reads certificate and key again; sessions keep theirs.
MUST_CHECK enum error_code tunnel_node_reload_tls(struct tunnel_node *node, struct error *err);

// Answers to on_session_opening. A session that is gone by then is ignored. opened: any older session of the same
// runtime (any node) is told SUPERSEDED and closed.
void tunnel_session_opened(struct tunnel_node *node, struct tunnel_session_ref ref, uint64_t epoch);
// stands_by: another instance serves the runtime, and instances of it keep replacing each other. The session stays as a
// warm standby without an epoch and asks again every few seconds, and at once when the one that serves seems to have
// gone.
void tunnel_session_stands_by(struct tunnel_node *node, struct tunnel_session_ref ref);
void tunnel_session_refused(struct tunnel_node *node, struct tunnel_session_ref ref, const char *reason);
// Thread-safe. Closes every session, with its streams, that was authenticated with this token (revocation), or
// that belongs to this runtime when token_id is NULL (deletion).
void tunnel_broker_revoke(struct tunnel_broker *broker, const char *account_id, const char *runtime,
                          const char *token_id, const char *reason);
// Thread-safe. Another replica holds a newer epoch: close ours if it is older.
void tunnel_broker_supersede(struct tunnel_broker *broker, const char *account_id, const char *runtime,
                             uint64_t newer_epoch);

// Thread-safe. Whoever served the runtime, here or elsewhere, may have gone: its standbys here ask for an epoch now.
void tunnel_broker_wake_standbys(struct tunnel_broker *broker, const struct runtime_key *key);
// Thread-safe. Is there a session that tunnel_broker_supersede() would end?
bool tunnel_broker_has_older(struct tunnel_broker *broker, const struct runtime_key *key, uint64_t newer_epoch);
// Thread-safe. From this moment on (monotonic milliseconds) no session of this process gets a call, until another one
// is set: the replica cannot prove any more that they are its own. Sessions and calls in flight stay. Never called: no
// end.
void tunnel_broker_route_until(struct tunnel_broker *broker, uint64_t mono_ms);
// Thread-safe. Asks every agent here to open its tunnel elsewhere, over that span; unused sessions end then.
void tunnel_broker_move_sessions(struct tunnel_broker *broker, uint64_t spread_ms);

// An operation for the agent of a session (tunnel/wire/control.h). Views, copied.
struct tunnel_operation {
    struct str account_id, runtime, operation_id, document;
    uint64_t epoch, attempt, ttl_ms;
};
// Thread-safe. False: the session of that epoch is not here. True: it is sent, unless the session
// ends or its queue is full: the caller sends it again when the agent does not answer. An agent
// without WIRE_FEATURE_OPERATIONS is answered for with on_session_operation.
bool tunnel_broker_operate(struct tunnel_broker *broker, const struct tunnel_operation *operation);

void tunnel_reports_ack(struct tunnel_node *node, struct tunnel_session_ref ref, const struct wire_ack *ack);
void tunnel_reports_resume(struct tunnel_node *node, struct tunnel_session_ref ref);
// Ends the session because of what its reports are; the agent is told. Also out of on_report.
void tunnel_reports_abuse(struct tunnel_node *node, struct tunnel_session_ref ref, const char *reason);

// Thread-safe view of what the process holds: on_each runs on the calling thread with copies.
void tunnel_broker_each_session(struct tunnel_broker *broker,
                                void (*on_each)(void *arg, const struct tunnel_session_info *session), void *arg);
// The same for some of those that have an epoch, a part after the other: at most `max` copies go to `out`. Gives where
// the next part begins: 0 for the first one, and after the last one. A session that comes or goes meanwhile may be met
// twice in a round, or only in the next one. The copies hold keys: whoever has read them wipes them.
size_t tunnel_broker_some_sessions(struct tunnel_broker *broker, size_t from, struct tunnel_session_info *out,
                                   size_t max, size_t *out_count);

// ---- calls ---------------------------------------------------------------------------------------------------

enum tunnel_cause {
    TUNNEL_CAUSE_NONE,
    TUNNEL_CAUSE_NO_TUNNEL,       // 503 no-tunnel: no live session for the runtime
    TUNNEL_CAUSE_OVERLOADED,      // 503 overloaded: budgets or stream limit
    TUNNEL_CAUSE_TUNNEL_LOST,     // 502 tunnel-lost: the session died under the call
    TUNNEL_CAUSE_DIAL_FAILED,     // 502 dial-failed: the agent could not reach the service
    TUNNEL_CAUSE_NOT_ALLOWED,     // 403 not-allowed: not in the agent's allow-list
    TUNNEL_CAUSE_NO_ROUTE,        // 404 no-route: no service under this path
    TUNNEL_CAUSE_HEAD_TIMEOUT,    // 504 head-timeout
    TUNNEL_CAUSE_STALLED,         // 504 stalled: no progress of the consumer for 60 s
    TUNNEL_CAUSE_UPSTREAM_FAILED, // 502 upstream-failed: broke its protocol or closed early
    TUNNEL_CAUSE_CANCELLED,
};
const char *tunnel_cause_name(enum tunnel_cause cause); // "no-tunnel", value of the header `culvert-cause`
int tunnel_cause_status(enum tunnel_cause cause);       // the HTTP status above

struct tunnel_request {
    struct str account_id, runtime; // from the route and the caller's credential, never from a header alone
    struct str method, path;        // path with query, origin-form
    struct str authority;           // "<service>.<namespace>", or empty: the agent's path table decides
    struct str protocol;            // extended CONNECT (RFC 8441): "websocket", "connect-tcp"; else empty
    const struct http_header *headers;
    size_t header_count;
    bool end_stream; // no body follows
    // Who calls; signed into culvert-identity. NULL user: anonymous (webhooks).
    const char *user_id, *user_name;
    uint64_t head_timeout_ms; // 0: the option's
    // Not 0: another replica believes that the session of this epoch is here. If it is not, the call fails with
    // TUNNEL_CAUSE_NO_TUNNEL at once: it neither waits nor is carried on.
    uint64_t epoch;
};

// The events of one HTTP exchange, for whoever made its request: the same from a stream of a session to
// a call, from a carrier to a call, and from a call to its caller. Other ends of exchanges (peer_stream,
// call_exchange, the agent's streams and upstreams) use the same names for the same events.
//
// Order: on_info*, on_head, on_data*, on_trailers?, on_end; on_fail in place of whatever is still to come.
// Either is the last: the exchange is freed when it returns. An upgraded exchange ends its halves apart.
// on_taken and on_room come at any time. All on the loop that opened the exchange, never inside the
// function that opens it. on_head, on_data, on_end and on_fail are never NULL.
struct exchange_events {
    // 1xx, 16 times at most. Their fields are not passed on: a cluster sets no links for our origin.
    void (*on_info)(void *arg, int status);
    void (*on_head)(void *arg, int status, const struct http_header *headers, size_t count);
    // at..len is valid during the call only; every byte must be given back as consumed once the consumer
    // took it: that is what opens the stream's window again.
    void (*on_data)(void *arg, const uint8_t *at, size_t len);
    void (*on_trailers)(void *arg, const struct http_header *headers, size_t count);
    // Upgraded: the far end sends no more. The caller's half stays open until it ends it.
    void (*on_half_end)(void *arg);
    // So many written bytes are on their way to the agent: a request of which nothing has arrived can
    // still end with TUNNEL_CAUSE_NO_TUNNEL after writing, but not after this.
    void (*on_taken)(void *arg, size_t len);
    void (*on_room)(void *arg); // room again after a write that returned "full"
    void (*on_end)(void *arg);  // END_STREAM from the far end and ours sent
    void (*on_fail)(void *arg, enum tunnel_cause cause, const char *detail);
};

// Never NULL: what goes wrong arrives as on_fail.
struct tunnel_call *tunnel_call_open(struct tunnel_node *node, const struct tunnel_request *request,
                                     const struct exchange_events *events, void *arg);
// Copies and queues. False: the queue is full (64 KiB beyond what flow control took): stop until on_room.
// The bytes were taken in either case.
bool tunnel_call_write(struct tunnel_call *call, const void *at, size_t len);
void tunnel_call_end(struct tunnel_call *call); // half-close: the request body is complete
// Half-close with a trailer section (RFC 9113 section 8.1), in place of tunnel_call_end(). Copies. What must not stand
// in one or cannot be sent is left out; one longer than a head may be is left out whole (RFC 9110 section 6.5.1).
void tunnel_call_trailers(struct tunnel_call *call, const struct http_header *headers, size_t count);
void tunnel_call_consumed(struct tunnel_call *call, size_t len);
// The node with the session that carries the call; the caller's own where none does, or another replica's.
unsigned tunnel_call_node(const struct tunnel_call *call);
// RST_STREAM(CANCEL) at once; no callback follows; the pointer is dead.
void tunnel_call_cancel(struct tunnel_call *call);
// ---- calls carried elsewhere ---------------------------------------------------------------------------------

struct tunnel_carried; // a call in the carrier's hands

// What the caller wrote so far.
struct tunnel_carried_body {
    const void *at;
    size_t len;
    const struct http_header *trailers; // once end() was told
    size_t trailer_count;
};

// What a carrier reports to the call, on the call's loop and never inside open().
struct tunnel_carrier_events {
    // Lives on. Its on_taken: so many written bytes will not be given back by on_here.
    const struct exchange_events *exchange;
    // Gives the call back because the runtime came here: with its request and what was written, as far as
    // it was not reported taken. The last one, as on_end and on_fail are.
    void (*on_here)(void *arg, const struct tunnel_request *request, const struct tunnel_carried_body *body);
};
// Takes calls whose runtime has no session in this process: to the replica that has, or waits for one.
struct tunnel_carrier {
    // Copies the request. NULL: the call is not carried.
    struct tunnel_carried *(*open)(void *ctx, struct tunnel_node *node, const struct tunnel_request *request,
                                   const struct tunnel_carrier_events *events, void *arg);
    void (*write)(struct tunnel_carried *carried, const void *at, size_t len);                     // copies
    void (*end)(struct tunnel_carried *carried, const struct http_header *trailers, size_t count); // copies
    void (*consumed)(struct tunnel_carried *carried, size_t len);
    void (*cancel)(struct tunnel_carried *carried); // no event follows; the pointer is dead
};

// Is there a live session in this process for the runtime? (For status pages; a call just tries.)
bool tunnel_node_has_runtime(struct tunnel_node *node, const struct runtime_key *key);

#endif
