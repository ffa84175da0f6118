// worker_part: one thing that lives on a worker's loop, and what it does from start to end. The list
// (server/worker.c) is the only one: a line there makes a part of every worker. A function that a part does not
// need is NULL. All run on the worker's loop, but release. Each finds its object in struct worker and
// does nothing if that is NULL: a start that fails ends all parts, those that were not started included.
#ifndef CULVERT_SERVER_WORKER_PART_H
#define CULVERT_SERVER_WORKER_PART_H

#include "server/worker.h"

struct worker_part {
    bool first_loop_alone; // start: not on others
    // In the order of the list. An error ends the worker.
    enum error_code (*start)(struct worker *worker, struct error *err);

    // After SIGTERM, while everything is served as before (drain.lame_duck).
    void (*wind_down)(struct worker *worker);
    // Then; drain.deadline begins.
    void (*stop_accepting)(struct worker *worker);
    // All at once; done is called once, at the deadline at the latest.
    void (*drain)(struct worker *worker, loop_fn done, void *arg);
    // Once all have drained: clients that are left are sent away.
    void (*retire)(struct worker *worker);
    bool (*is_idle)(const struct worker *worker);

    // Once all are idle, or late. All at once; the next step waits for done of all.
    void (*close_listener)(struct worker *worker, loop_fn done, void *arg);
    // In the order of the list: nothing new begins.
    void (*stop)(struct worker *worker);
    // One after the other, against the order of the list: close waits for done, destroy does not.
    void (*close)(struct worker *worker, loop_fn done, void *arg);
    void (*destroy)(struct worker *worker);
    // Main thread, once the loop no longer runs.
    void (*release)(struct worker *worker);
};

extern const struct worker_part *const worker_parts[]; // ends with NULL

// server/worker_peers.c, server/worker_changes.c, server/worker_endpoints.c. The others are where the list is.
extern const struct worker_part worker_part_changes, worker_part_peers, worker_part_peer_listener;
extern const struct worker_part worker_part_api_listener, worker_part_ingress, worker_part_admin_listener;

#endif
