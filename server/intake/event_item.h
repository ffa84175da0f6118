// event_item: a report on its way into the database, its bytes with it, and who wants to know how it ends; and the line
// such items wait in. One loop's.
#ifndef CULVERT_SERVER_INTAKE_EVENT_ITEM_H
#define CULVERT_SERVER_INTAKE_EVENT_ITEM_H

#include "server/intake/event_handler.h"

struct event_item {
    struct event_item *next;
    struct report report; // its texts lie behind the item, or are kept by whoever submitted it
    size_t bytes;
    bool patient;
    event_item_done on_done;
    void *arg;
};

struct event_item *event_item_create(const struct report *report, bool patient, event_item_done on_done, void *arg);
void event_item_destroy(struct event_item *item);

struct event_line {
    struct event_item *first, *last;
    size_t count, bytes;
};

void event_line_add(struct event_line *line, struct event_item *item);      // behind all others
void event_line_add_head(struct event_line *line, struct event_item *item); // before all others
struct event_item *event_line_take(struct event_line *line);                // the first; NULL: there is none
// The one behind this one; NULL: the first. There is one.
struct event_item *event_line_take_behind(struct event_line *line, struct event_item *before);

#endif
