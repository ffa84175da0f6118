// operation_sender: operations on their way from PostgreSQL to agents, and what agents report of
// them on its way back. On one loop of the replica it asks now and then, and when one was queued
// here, which operations are due over sessions of this replica; on every loop it writes what the
// agents of its sessions report, one transaction at a time. Nothing is kept that is not in
// PostgreSQL: what is lost here, with the process or for want of room, is sent again
// (docs/internals/operations.md). Everything on its loop.
#ifndef CULVERT_SERVER_OPERATIONS_OPERATION_SENDER_H
#define CULVERT_SERVER_OPERATIONS_OPERATION_SENDER_H

#include "base/loop/loop.h"
#include "storage/pg/pg.h"
#include "tunnel/broker.h"

struct operation_sender;
struct wire_control;

struct operation_sender_options {
    struct pg *pg;
    struct tunnel_broker *broker;
    const char *replica;
    bool sends;           // this loop asks what is due
    uint64_t interval_ms; // how often
    uint64_t resend_ms;   // after which an operation is sent again that the agent did not answer
    uint64_t run_ms;      // how long after its expiry one may run before its end counts as unknown
    unsigned rows;        // at once
};

struct operation_sender *operation_sender_create(struct loop *loop, const struct operation_sender_options *options);
void operation_sender_stop(struct operation_sender *sender);    // nothing begins any more; NULL is fine
void operation_sender_destroy(struct operation_sender *sender); // after pg was closed; NULL is fine
// An operation was queued. NULL, and one that does not send: nothing happens.
void operation_sender_wake(struct operation_sender *sender);
// What the agent of a session reports.
void operation_sender_take(struct operation_sender *sender, const struct tunnel_session_info *session,
                           const struct wire_control *control);

#endif
