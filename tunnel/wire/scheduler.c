#include "tunnel/wire/scheduler.h"

#include <assert.h>

void wire_scheduler_init(struct wire_scheduler *scheduler)
{
    *scheduler = (struct wire_scheduler){0};
    for (unsigned i = 0; i < WIRE_URGENCIES; i++)
        scheduler->classes[i].last = &scheduler->classes[i].first;
}

void wire_scheduler_item_init(struct wire_scheduler_item *item, enum wire_urgency urgency, uint64_t now_us)
{
    assert(urgency < WIRE_URGENCIES);
    *item = (struct wire_scheduler_item){
        .urgency = (uint8_t)urgency, .class = (uint8_t)urgency, .idle = true, .idle_at_us = now_us};
}

static uint8_t item_class(const struct wire_scheduler_item *item)
{
    if (item->urgency == WIRE_URGENCY_CONTROL || item->urgency > WIRE_URGENCY_BULK) return item->urgency;
    return item->sent_bytes > WIRE_SCHEDULER_BULK_BYTES ? WIRE_URGENCY_BULK : item->urgency;
}

static void item_append(struct wire_scheduler *scheduler, struct wire_scheduler_item *item)
{
    assert(!item->link && item->class < WIRE_URGENCIES);
    struct wire_scheduler_class *class = &scheduler->classes[item->class];
    item->next = NULL;
    item->link = class->last;
    *class->last = item;
    class->last = &item->next;
    scheduler->waiting++;
}

static void item_unlink(struct wire_scheduler *scheduler, struct wire_scheduler_item *item)
{
    if (!item->link) return;
    struct wire_scheduler_class *class = &scheduler->classes[item->class];
    *item->link = item->next;
    if (item->next)
        item->next->link = item->link;
    else
        class->last = item->link;
    item->next = NULL;
    item->link = NULL;
    assert(scheduler->waiting > 0);
    scheduler->waiting--;
    // Only those who wait are owed anything.
    if (!class->first) class->owed_bytes = 0;
}

// Puts a waiting item at the end of the class it belongs to now.
static void item_requeue(struct wire_scheduler *scheduler, struct wire_scheduler_item *item)
{
    uint8_t class = item_class(item);
    if (class == item->class && scheduler->classes[class].first == item && !item->next) return; // alone: stays
    item_unlink(scheduler, item);
    item->class = class;
    item_append(scheduler, item);
}

void wire_scheduler_set_urgency(struct wire_scheduler *scheduler, struct wire_scheduler_item *item,
                                enum wire_urgency urgency)
{
    if (item->urgency == urgency) return;
    item->urgency = (uint8_t)urgency;
    if (!item->link)
        item->class = item_class(item);
    else if (item->class != item_class(item))
        item_requeue(scheduler, item);
}

void wire_scheduler_ready(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, uint64_t now_us)
{
    if (item->link) return;
    if (item->idle && now_us - item->idle_at_us >= WIRE_SCHEDULER_IDLE_US) item->sent_bytes = 0;
    item->idle = false;
    item->class = item_class(item);
    item->ready_at_us = now_us;
    item_append(scheduler, item);
}

void wire_scheduler_idle(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, uint64_t now_us)
{
    item_unlink(scheduler, item);
    item->deficit = 0; // what it did not use it does not keep
    if (item->idle) return;
    item->idle = true;
    item->idle_at_us = now_us;
}

void wire_scheduler_block(struct wire_scheduler *scheduler, struct wire_scheduler_item *item)
{
    item_unlink(scheduler, item);
    item->deficit = 0;
}

void wire_scheduler_remove(struct wire_scheduler *scheduler, struct wire_scheduler_item *item)
{
    item_unlink(scheduler, item);
}

struct wire_scheduler_item *wire_scheduler_next(struct wire_scheduler *scheduler, size_t *out_allowance)
{
    struct wire_scheduler_class *chosen = NULL;
    for (unsigned i = 0; i < WIRE_URGENCIES; i++) {
        struct wire_scheduler_class *class = &scheduler->classes[i];
        if (!class->first) continue;
        if (!chosen) chosen = class;
        // The share is due: the last of those to whom it is, who has waited behind all the others.
        if (class->owed_bytes >= (WIRE_SCHEDULER_SHARE - 1) * WIRE_SCHEDULER_QUANTUM_BYTES) chosen = class;
    }
    if (!chosen) return NULL;
    struct wire_scheduler_item *item = chosen->first;
    assert(item->link == &chosen->first);
    *out_allowance = item->deficit ? item->deficit : WIRE_SCHEDULER_QUANTUM_BYTES;
    return item;
}

static void scheduler_owe(struct wire_scheduler *scheduler, const struct wire_scheduler_class *served, size_t len)
{
    for (unsigned i = 0; i < WIRE_URGENCIES; i++) {
        struct wire_scheduler_class *class = &scheduler->classes[i];
        uint64_t got = (uint64_t)(WIRE_SCHEDULER_SHARE - 1) * len;
        if (class == served)
            class->owed_bytes = class->owed_bytes > got ? class->owed_bytes - got : 0;
        else if (class->first)
            class->owed_bytes += len;
    }
}

void wire_scheduler_sent(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, size_t len,
                         uint64_t now_us)
{
    if (!item->deficit) item->deficit = WIRE_SCHEDULER_QUANTUM_BYTES;
    assert(item->link && len <= item->deficit);
    item->deficit -= (uint32_t)len;
    item->sent_bytes += len;
    item->ready_at_us = now_us;
    scheduler_owe(scheduler, &scheduler->classes[item->class], len);
    if (!item->deficit || item->class != item_class(item)) item_requeue(scheduler, item);
}
