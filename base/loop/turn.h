// turn: work put off to the end of the loop's current turn, so that nothing is called back or freed inside its own
// callback and so that what crosses threads goes in one batch. One an owner, on its loop's thread. Never blocks the
// loop's poll while there is work, and costs nothing while there is none.
#ifndef CULVERT_BASE_LOOP_TURN_H
#define CULVERT_BASE_LOOP_TURN_H

#include <stdbool.h>
#include <uv.h>

// Embedded in the object that has the work. `run` may add the item again (for the next turn) or free its object.
struct turn_item {
    void (*run)(struct turn_item *item);
    struct turn_item *next;
    struct turn_item **link; // what points to this item; NULL: not queued
};

struct turn {
    uv_check_t check;
    uv_idle_t idle; // keeps the poll from blocking while items wait
    struct turn_item *first;
    struct turn_item **last;
    struct turn_item *running; // the batch being run
    unsigned handles_open;
    void (*on_closed)(void *arg);
    void *arg;
};

void turn_init(struct turn *turn, uv_loop_t *loop);
void turn_add(struct turn *turn, struct turn_item *item); // a queued item stays where it is
void turn_remove(struct turn *turn, struct turn_item *item);
// Runs what is queued, then closes the handles; on_closed comes when the memory may go.
void turn_close(struct turn *turn, void (*on_closed)(void *arg), void *arg);

#endif
