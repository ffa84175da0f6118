#include "server/bus/bus_port.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

struct bus_port {
    struct loop *loop;
    void *ctx; // NULL: closed. The loop's
    atomic_uint references;
    pthread_mutex_t mutex; // guards the messages
    struct bus_letter *first, *last;
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
    struct bus_letter *letter = port->first;
    port->first = port->last = NULL;
    pthread_mutex_unlock(&port->mutex);
    for (struct bus_letter *next; letter; letter = next) {
        next = letter->next;
        letter->next = NULL;
        if (port->ctx)
            letter->open(letter, port->ctx);
        else
            letter->drop(letter);
    }
    bus_port_unref(port);
}

void bus_port_send(struct bus_port *port, struct bus_letter *letter)
{
    letter->next = NULL;
    pthread_mutex_lock(&port->mutex);
    bool first = port->first == NULL;
    if (first)
        port->first = letter;
    else
        port->last->next = letter;
    port->last = letter;
    pthread_mutex_unlock(&port->mutex);
    if (first) loop_post(port->loop, deliver, bus_port_ref(port));
}
