// operations: runs changes that users of the platform asked for, as far as operations.allowed
// permits (docs/internals/operations.md). Each is run once in the life of a process, however often
// it is delivered; what an earlier process may have run is judged from the object. Bounded: what
// finds no room is left to be delivered again. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_OPERATIONS_H
#define CULVERT_AGENT_OPERATIONS_H

#include "agent/kube/kube_client.h"
#include "agent/operations/operation_rights.h"
#include "tunnel/wire/control.h"

struct operations;

struct operations_options {
    struct kube_client *client; // NULL: every operation is refused
    const struct operation_rights *rights;
    size_t held_max;      // that run or are remembered
    unsigned at_once_max; // requests to the API
    uint64_t follow_ms;   // how long a controller's work is waited for
    // Sends an OPERATION_STATE. False: not now; it is tried again.
    bool (*report)(void *arg, const struct wire_control *state);
    void *arg;
};

struct operations *operations_create(struct loop *loop, const struct operations_options *options);
void operations_destroy(struct operations *operations); // before its client; NULL is fine
// WIRE_CONTROL_OPERATION.
void operations_take(struct operations *operations, const struct wire_control *operation);
// One of this process's own, document as the platform sends it, with a minute to begin. on_state
// once, later or at once: when the change was taken, or the operation has ended. False: no room,
// and no call. Not inside on_state.
typedef void (*operations_on_state)(void *arg, enum wire_operation_state state, const char *code, const char *message);
MUST_CHECK bool operations_run(struct operations *operations, struct str document, operations_on_state on_state,
                               void *arg);

#endif
