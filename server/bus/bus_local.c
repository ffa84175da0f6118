// bus_local: the form without anything in between.
#include "base/mem.h"
#include "server/bus/bus.h"

struct bus_local {
    struct bus bus;
    struct event_handler *handler;
};

static enum error_code submit(struct bus *bus, const struct report *report, bool patient, event_item_done on_done,
                              void *arg, struct error *err)
{
    return event_handler_submit(((struct bus_local *)bus)->handler, report, patient, on_done, arg, err);
}

static bool has_room(const struct bus *bus, const struct runtime_key *key)
{
    return event_handler_has_room(((const struct bus_local *)bus)->handler, key);
}

static bool is_idle(const struct bus *bus)
{
    return event_handler_is_idle(((const struct bus_local *)bus)->handler);
}

static void stop(struct bus *bus)
{
    (void)bus;
}

static void destroy(struct bus *bus)
{
    mem_free(bus);
}

struct bus *bus_local_create(struct event_handler *handler)
{
    static const struct bus_form form = {
        .submit = submit, .has_room = has_room, .is_idle = is_idle, .stop = stop, .destroy = destroy};
    struct bus_local *local = mem_alloc(sizeof *local);
    *local = (struct bus_local){.bus.form = &form, .handler = handler};
    return &local->bus;
}
