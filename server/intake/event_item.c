#include "server/intake/event_item.h"

#include <assert.h>

#include "base/mem.h"

struct event_item *event_item_create(const struct report *report, bool patient, event_item_done on_done, void *arg)
{
    size_t bytes = sizeof(struct event_item) + report_text_bytes(report);
    struct event_item *item = mem_alloc(report->is_kept ? sizeof *item : bytes);
    *item = (struct event_item){.bytes = bytes, .patient = patient, .on_done = on_done, .arg = arg};
    if (report->is_kept)
        item->report = *report;
    else
        report_copy_into(&item->report, report, (char *)(item + 1));
    return item;
}

void event_item_destroy(struct event_item *item)
{
    mem_free(item);
}

void event_line_add(struct event_line *line, struct event_item *item)
{
    item->next = NULL;
    if (line->last)
        line->last->next = item;
    else
        line->first = item;
    line->last = item;
    line->count++;
    line->bytes += item->bytes;
}

void event_line_add_head(struct event_line *line, struct event_item *item)
{
    item->next = line->first;
    line->first = item;
    if (!line->last) line->last = item;
    line->count++;
    line->bytes += item->bytes;
}

struct event_item *event_line_take(struct event_line *line)
{
    return line->first ? event_line_take_behind(line, NULL) : NULL;
}

struct event_item *event_line_take_behind(struct event_line *line, struct event_item *before)
{
    struct event_item **link = before ? &before->next : &line->first, *item = *link;
    assert(item && line->count > 0 && line->bytes >= item->bytes);
    *link = item->next;
    if (!item->next) line->last = before;
    item->next = NULL;
    line->count--;
    line->bytes -= item->bytes;
    return item;
}
