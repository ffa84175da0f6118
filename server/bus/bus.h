// bus: what lies between intake and event handler, one a loop. A report that was submitted is
// durable when its callback reports so without an error: by COMMIT (form `local`), or because a
// broker's quorum holds it and some replica's event handler will apply it (form `rabbitmq`). Order
// is no promise of the bus: rows yield only to a newer (epoch, sequence), so that a report that
// comes twice, late or by another way changes nothing. Everything on its loop; callbacks too.
#ifndef CULVERT_SERVER_BUS_BUS_H
#define CULVERT_SERVER_BUS_BUS_H

#include "server/intake/event_handler.h"

struct bus;

// What a form does; see the functions below.
struct bus_form {
    enum error_code (*submit)(struct bus *bus, const struct report *report, bool patient, event_item_done on_done,
                              void *arg, struct error *err);
    bool (*has_room)(const struct bus *bus, const struct runtime_key *key);
    bool (*is_idle)(const struct bus *bus);
    void (*stop)(struct bus *bus);
    void (*destroy)(struct bus *bus);
    bool is_remote;
};

// First member of each form's struct.
struct bus {
    const struct bus_form *form;
};

// Reports go straight to the handler, which stays the caller's and outlives the bus.
struct bus *bus_local_create(struct event_handler *handler);

// Copies the report. patient and the answers are event_handler_submit()'s. on_done may run inside
// this call. When a broker took the report, on_done gets no report and the outcome
// REPORT_UNCHANGED: what becomes of it is not known yet.
MUST_CHECK static inline enum error_code bus_submit(struct bus *bus, const struct report *report, bool patient,
                                                    event_item_done on_done, void *arg, struct error *err)
{
    return bus->form->submit(bus, report, patient, on_done, arg, err);
}
// False: a source of this runtime should pause.
static inline bool bus_has_room(const struct bus *bus, const struct runtime_key *key)
{
    return bus->form->has_room(bus, key);
}
// Nothing that was submitted here, or is being applied here, is under way.
static inline bool bus_is_idle(const struct bus *bus)
{
    return bus->form->is_idle(bus);
}
// Reports may be durable and not yet applied: a snapshot's end must follow what belongs to it, and
// its verdict is read from the database (storage/reports/snapshot_verdict_store.h).
static inline bool bus_is_remote(const struct bus *bus)
{
    return bus->form->is_remote;
}
// No more is handed to the handler but what callers submit. Before event_handler_stop().
static inline void bus_stop(struct bus *bus)
{
    bus->form->stop(bus);
}
// What waits for a broker ends with ERROR_CANCELLED. After event_handler_destroy(), whose last
// callbacks come here.
static inline void bus_destroy(struct bus *bus)
{
    if (bus) bus->form->destroy(bus);
}

#endif
