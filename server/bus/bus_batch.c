#include "server/bus/bus_batch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

struct bus_batch *bus_batch_create(const struct report *first, size_t capacity)
{
    struct bus_batch *batch = mem_zalloc(sizeof *batch);
    batch->capacity = capacity;
    batch->entries = mem_array(capacity, sizeof *batch->entries);
    snprintf(batch->account_id, sizeof batch->account_id, "%.*s", STR_ARG(first->account_id));
    snprintf(batch->runtime, sizeof batch->runtime, "%.*s", STR_ARG(first->runtime));
    batch->epoch = first->epoch;
    batch->source = first->source;
    bus_message_begin(&batch->writer, first, clock_wall_ms());
    return batch;
}

void bus_batch_destroy(struct bus_batch *batch)
{
    if (!batch) return;
    bus_message_abandon(&batch->writer);
    strbuf_finish(&batch->bytes);
    mem_free(batch->entries);
    mem_free(batch);
}

bool bus_batch_is_for(const struct bus_batch *batch, const struct report *report)
{
    return batch->epoch == report->epoch && batch->source == report->source &&
           str_eq(str_c(batch->runtime), report->runtime) && str_eq(str_c(batch->account_id), report->account_id);
}

bool bus_batch_has_room(const struct bus_batch *batch, const struct report *report)
{
    return batch->count < batch->capacity && bus_message_fits(&batch->writer, report);
}

enum error_code bus_batch_add(struct bus_batch *batch, const struct report *report, bool patient,
                              event_item_done on_done, void *arg, struct error *err)
{
    enum error_code code = bus_message_add(&batch->writer, report, err);
    if (code != ERROR_NONE) return code;
    batch->entries[batch->count++] = (struct bus_batch_entry){on_done, arg, patient};
    return ERROR_NONE;
}

void bus_batch_seal(struct bus_batch *batch)
{
    bus_message_end(&batch->writer, &batch->bytes);
    batch->publication.body = strbuf_str(&batch->bytes);
}

void bus_batch_tell(struct bus_batch *batch, const struct error *err, const struct report_outcome *outcome)
{
    size_t count = batch->count;
    batch->count = 0;
    for (size_t i = 0; i < count; i++)
        batch->entries[i].on_done(batch->entries[i].arg, err, NULL, outcome);
}

void bus_batch_divert(struct bus_batch *batch, struct event_handler *handler)
{
    size_t count = batch->count;
    batch->count = 0;
    if (!count) return;
    struct bus_message message;
    struct error err;
    // We wrote it: what cannot be read here is a defect, and must not count as durable.
    if (bus_message_open(&message, batch->bytes.at, batch->bytes.len, &err) != ERROR_NONE || message.count != count) {
        log_error("bus", "message_unreadable", log_err(&err));
        error_set(&err, ERROR_INTERNAL, "the report could not be stored");
        for (size_t i = 0; i < count; i++)
            batch->entries[i].on_done(batch->entries[i].arg, &err, NULL, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct bus_batch_entry *entry = &batch->entries[i];
        if (event_handler_submit(handler, &message.reports[i], entry->patient, entry->on_done, entry->arg, &err) !=
            ERROR_NONE)
            entry->on_done(entry->arg, &err, NULL, NULL);
    }
    bus_message_close(&message);
}
