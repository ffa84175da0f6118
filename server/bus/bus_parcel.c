#include "server/bus/bus_parcel.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

struct bus_parcel *bus_parcel_create(const struct report *first, size_t capacity)
{
    struct bus_parcel *parcel = mem_zalloc(sizeof *parcel);
    parcel->capacity = capacity;
    parcel->entries = mem_array(capacity, sizeof *parcel->entries);
    snprintf(parcel->account_id, sizeof parcel->account_id, "%.*s", STR_ARG(first->account_id));
    snprintf(parcel->runtime, sizeof parcel->runtime, "%.*s", STR_ARG(first->runtime));
    parcel->epoch = first->epoch;
    parcel->source = first->source;
    bus_message_begin(&parcel->writer, first, clock_wall_ms());
    return parcel;
}

void bus_parcel_destroy(struct bus_parcel *parcel)
{
    if (!parcel) return;
    bus_message_abandon(&parcel->writer);
    strbuf_finish(&parcel->bytes);
    mem_free(parcel->entries);
    mem_free(parcel);
}

bool bus_parcel_is_for(const struct bus_parcel *parcel, const struct report *report)
{
    return parcel->epoch == report->epoch && parcel->source == report->source &&
           str_eq(str_c(parcel->runtime), report->runtime) && str_eq(str_c(parcel->account_id), report->account_id);
}

bool bus_parcel_has_room(const struct bus_parcel *parcel, const struct report *report)
{
    return parcel->count < parcel->capacity && bus_message_fits(&parcel->writer, report);
}

enum error_code bus_parcel_add(struct bus_parcel *parcel, const struct report *report, bool patient,
                               event_item_done on_done, void *arg, struct error *err)
{
    enum error_code code = bus_message_add(&parcel->writer, report, err);
    if (code != ERROR_NONE) return code;
    parcel->entries[parcel->count++] = (struct bus_parcel_entry){on_done, arg, patient};
    return ERROR_NONE;
}

void bus_parcel_seal(struct bus_parcel *parcel)
{
    bus_message_end(&parcel->writer, &parcel->bytes);
    parcel->publication.body = strbuf_str(&parcel->bytes);
}

void bus_parcel_tell(struct bus_parcel *parcel, const struct error *err, const struct report_outcome *outcome)
{
    size_t count = parcel->count;
    parcel->count = 0;
    for (size_t i = 0; i < count; i++)
        parcel->entries[i].on_done(parcel->entries[i].arg, err, NULL, outcome);
}

void bus_parcel_divert(struct bus_parcel *parcel, struct event_handler *handler)
{
    size_t count = parcel->count;
    parcel->count = 0;
    if (!count) return;
    struct bus_message message;
    struct error err;
    // We wrote it: what cannot be read here is a defect, and must not count as durable.
    if (bus_message_open(&message, parcel->bytes.at, parcel->bytes.len, &err) != ERROR_NONE || message.count != count) {
        log_error("bus", "message_unreadable", log_err(&err));
        error_set(&err, ERROR_INTERNAL, "the report could not be stored");
        for (size_t i = 0; i < count; i++)
            parcel->entries[i].on_done(parcel->entries[i].arg, &err, NULL, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct bus_parcel_entry *entry = &parcel->entries[i];
        if (event_handler_submit(handler, &message.reports[i], entry->patient, entry->on_done, entry->arg, &err) !=
            ERROR_NONE)
            entry->on_done(entry->arg, &err, NULL, NULL);
    }
    bus_message_close(&message);
}
