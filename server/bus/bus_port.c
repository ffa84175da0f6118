#include "server/bus/bus_port.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

struct bus_port {
    struct loop *loop;
    void *ctx; // NULL: closed. The loop's
    atomic_uint references;
    pthread_mutex_t mutex; // guards the messages
    struct bus_port_item *first, *last;
};

struct bus_port *bus_port_create(struct loop *loop, void *ctx)
{
    struct bus_port *port = mem_zalloc(sizeof *port);
    port->loop = loop;
    port->ctx = ctx;
    atomic_init(&port->references, 1);
    pthread_mutex_init(&port->mutex, NULL);
    return port;
}

struct bus_port *bus_port_ref(struct bus_port *port)
{
    atomic_fetch_add(&port->references, 1);
    return port;
}

void bus_port_unref(struct bus_port *port)
{
    if (!port || atomic_fetch_sub(&port->references, 1) != 1) return;
    pthread_mutex_destroy(&port->mutex);
    mem_free(port);
}

void bus_port_close(struct bus_port *port)
{
    port->ctx = NULL;
}

// What is there now; a message that is sent meanwhile posts again.
static void deliver(void *arg)
{
    struct bus_port *port = arg;
    pthread_mutex_lock(&port->mutex);
    struct bus_port_item *item = port->first;
    port->first = port->last = NULL;
    pthread_mutex_unlock(&port->mutex);
    for (struct bus_port_item *next; item; item = next) {
        next = item->next;
        item->next = NULL;
        if (port->ctx)
            item->open(item, port->ctx);
        else
            item->drop(item);
    }
    bus_port_unref(port);
}

void bus_port_send(struct bus_port *port, struct bus_port_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&port->mutex);
    bool first = port->first == NULL;
    if (first)
        port->first = item;
    else
        port->last->next = item;
    port->last = item;
    pthread_mutex_unlock(&port->mutex);
    if (first) loop_post(port->loop, deliver, bus_port_ref(port));
}
