// intake: where every report enters, one a loop: from tunnels (on_report of the broker) and over HTTP (the API's event
// routes). It unpacks and checks, hands over to the bus, and acknowledges what the bus calls durable only: cumulative
// acknowledgements to the agent, the answer to the HTTP caller. While the bus has no
// room for more of a runtime, its tunnel is paused.
#ifndef CULVERT_SERVER_INTAKE_INTAKE_H
#define CULVERT_SERVER_INTAKE_INTAKE_H

#include "base/loop/loop.h"
#include "server/intake/event_handler.h"
#include "server/intake/resyncs.h"
#include "server/intake/snapshot_ends.h"
#include "tunnel/broker.h"

struct bus;
struct bus_rabbitmq_options;
struct intake;
struct manifest_known;
struct rabbitmq;
struct report_kinds;
struct traffic;

// Where answers to sessions go. The session may end inside each of them.
struct intake_sessions {
    void (*ack)(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack);
    void (*resume)(void *ctx, struct tunnel_session_ref ref);
    void (*abuse)(void *ctx, struct tunnel_session_ref ref, const char *reason);
    void *ctx;
};

// What reports are written to, and compared with. PostgreSQL's functions of these names, or a model
// of them.
struct intake_store {
    struct report_transaction *(*prepare)(struct pg *pg, const struct report_kinds *kinds, struct manifest_known *known,
                                          const struct report *reports, size_t count, report_store_ready on_ready,
                                          void *arg);
    void (*submit)(struct report_transaction *transaction, report_store_done on_done, void *arg);
    void (*discard)(struct report_transaction *transaction);
    struct resyncs_store digests;
    snapshot_ends_find *find_verdict; // NULL: snapshot_verdict_find
};

struct intake_options {
    const struct intake_store *store; // NULL: PostgreSQL
    struct pg *pg;
    // After COMMIT, besides what the intake does itself. NULL: not called.
    void (*on_committed)(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count);
    void *ctx;
    struct rabbitmq *rabbitmq; // NULL: the bus is local
    // NULL: bus_rabbitmq_create.
    struct bus *(*create_remote_bus)(struct loop *loop, struct event_handler *handler,
                                     const struct bus_rabbitmq_options *options);
    struct traffic *traffic;          // NULL: reports are not counted
    const struct report_kinds *kinds; // what reports write; outlive the intake
    struct manifest_known *known;     // may be NULL; of all loops whose pools count their losses together
    uint64_t batch_count, batch_bytes, batch_delay_ms, queue_bytes_max;
    uint64_t account_share, runtime_share;         // of the queue, in percent; 0: no limit
    uint64_t transactions_max;                     // in flight; 0: no limit
    uint64_t unpacked_per_second;                  // bytes of compressed manifests an account; 0: no bound
    uint64_t flapping_burst, flapping_interval_ms; // 0: nobody listens for flapping
};

struct intake *intake_create(struct loop *loop, const struct intake_options *options);
void intake_stop(struct intake *intake);    // before pg is closed; what waits keeps waiting
void intake_destroy(struct intake *intake); // after pg was closed
// The node acknowledgements go to; set once it exists.
void intake_set_node(struct intake *intake, struct tunnel_node *node);
// The same for any that has sessions. NULL: there is none any more.
void intake_set_sessions(struct intake *intake, const struct intake_sessions *sessions);

// The broker's on_report. False: paused, resumed by itself.
bool intake_take_tunnel(struct intake *intake, const struct tunnel_session_info *session,
                        const struct wire_report *record);
void intake_forget_session(struct intake *intake, struct tunnel_session_ref ref);

// All of one HTTP request; on_done once, when all are durable (err NULL) or the first failed. refused: how many were
// kept out, with the reason of the first in detail (valid during the call).
typedef void (*intake_http_done)(void *arg, const struct error *err, size_t refused, const char *detail);
void intake_take_http(struct intake *intake, const struct report *reports, size_t count, intake_http_done on_done,
                      void *arg);
bool intake_is_idle(const struct intake *intake);

#endif
