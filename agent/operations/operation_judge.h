// operation_judge: what an operation needs next, decided from the object as the Kubernetes API has
// it. Pure. It is asked again after every look at the object, so that an operation ends up in one
// of few states whatever was lost in between; and a change always names the resourceVersion that it
// was decided from, so that of two changes decided from the same state the API server takes one.
#ifndef CULVERT_AGENT_OPERATION_JUDGE_H
#define CULVERT_AGENT_OPERATION_JUDGE_H

#include "agent/operations/operation.h"

// What is known to have happened.
struct operation_past {
    bool is_sent;   // the API server took the change
    bool is_maybe;  // it may have: a process that ended, or a request without an answer
    struct str uid; // of the object that a change was sent for; empty: none was by this process
};

enum operation_verdict {
    OPERATION_CHANGE, // send the change
    OPERATION_WAIT,   // look again later
    OPERATION_DONE,
    OPERATION_FAILED,
    OPERATION_UNKNOWN,
};

struct operation_decision {
    enum operation_verdict verdict;
    // CHANGE
    const char *method, *content_type;
    const char *subresource; // NULL: none
    json_t *body;            // new reference
    // FAILED, UNKNOWN: why; DONE: a note, or empty
    const char *code; // constant
    char message[256];
};

// id: of the operation. object: NULL when it does not exist.
void operation_judge(const struct operation *operation, const char *id, const json_t *object,
                     const struct operation_past *past, struct operation_decision *out);

#endif
