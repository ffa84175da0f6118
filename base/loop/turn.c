#include "base/loop/turn.h"

#include <assert.h>
#include <stddef.h>

static void turn_on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void turn_append(struct turn *turn, struct turn_item *item)
{
    item->next = NULL;
    item->link = turn->last;
    *turn->last = item;
    turn->last = &item->next;
}

// Takes the batch over first: what is added meanwhile belongs to the next turn.
static void turn_run(struct turn *turn)
{
    turn->running = turn->first;
    if (turn->running) turn->running->link = &turn->running;
    turn->first = NULL;
    turn->last = &turn->first;
    while (turn->running) {
        struct turn_item *item = turn->running;
        turn->running = item->next;
        if (turn->running) turn->running->link = &turn->running;
        item->next = NULL;
        item->link = NULL;
        item->run(item);
    }
}

static void turn_on_check(uv_check_t *check)
{
    struct turn *turn = check->data;
    turn_run(turn);
    if (!turn->first) uv_idle_stop(&turn->idle);
}

void turn_init(struct turn *turn, uv_loop_t *loop)
{
    *turn = (struct turn){0};
    turn->last = &turn->first;
    uv_check_init(loop, &turn->check);
    uv_idle_init(loop, &turn->idle);
    turn->check.data = turn;
    turn->idle.data = turn;
    turn->handles_open = 2;
    uv_check_start(&turn->check, turn_on_check);
}

void turn_add(struct turn *turn, struct turn_item *item)
{
    if (item->link) return;
    turn_append(turn, item);
    if (!uv_is_closing((uv_handle_t *)&turn->idle)) uv_idle_start(&turn->idle, turn_on_idle);
}

void turn_remove(struct turn *turn, struct turn_item *item)
{
    if (!item->link) return;
    *item->link = item->next;
    if (item->next)
        item->next->link = item->link;
    else if (turn->last == &item->next)
        turn->last = item->link;
    item->next = NULL;
    item->link = NULL;
}

static void turn_on_handle_closed(uv_handle_t *handle)
{
    struct turn *turn = handle->data;
    if (--turn->handles_open == 0) turn->on_closed(turn->arg);
}

void turn_close(struct turn *turn, void (*on_closed)(void *arg), void *arg)
{
    assert(!turn->on_closed && on_closed);
    turn->on_closed = on_closed;
    turn->arg = arg;
    while (turn->first)
        turn_run(turn);
    uv_close((uv_handle_t *)&turn->check, turn_on_handle_closed);
    uv_close((uv_handle_t *)&turn->idle, turn_on_handle_closed);
}
