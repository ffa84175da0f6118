// bus_batch: reports of one runtime and session on their way into the broker in one message, and
// who wants to know how that ends. One loop's; the publisher reads its bytes meanwhile.
#ifndef CULVERT_SERVER_BUS_BUS_BATCH_H
#define CULVERT_SERVER_BUS_BUS_BATCH_H

#include "server/bus/amqp_publisher.h"
#include "server/bus/bus_message.h"
#include "server/intake/event_handler.h"

struct bus_batch {
    struct amqp_publication publication; // first
    struct bus_batch *next, *prev;       // its loop's list
    struct bus_message_writer writer;    // while it is open
    struct strbuf bytes;                 // afterwards
    uint64_t sent_ms, deadline_ms;
    bool is_late;
    size_t count, capacity; // 0 once they were notified
    struct bus_batch_entry {
        event_item_done on_done;
        void *arg;
        bool patient;
    } * entries;
    // What all of them have in common.
    char account_id[64], runtime[128];
    uint64_t epoch;
    enum report_source source;
};

struct bus_batch *bus_batch_create(const struct report *first, size_t capacity);
void bus_batch_destroy(struct bus_batch *batch);
// Whether the report is of the same runtime, session and source.
bool bus_batch_is_for(const struct bus_batch *batch, const struct report *report);
bool bus_batch_has_room(const struct bus_batch *batch, const struct report *report);
// ERROR_TOO_LARGE: it was not taken.
MUST_CHECK enum error_code bus_batch_add(struct bus_batch *batch, const struct report *report, bool patient,
                                         event_item_done on_done, void *arg, struct error *err);
// No more is added: writes the message.
void bus_batch_seal(struct bus_batch *batch);
// Notifies all of them, once.
void bus_batch_tell(struct bus_batch *batch, const struct error *err, const struct report_outcome *outcome);
// The other way: all reports go to the handler, which reports the result.
void bus_batch_divert(struct bus_batch *batch, struct event_handler *handler);

#endif
