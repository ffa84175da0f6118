// bus_port: the path of messages from the threads of a broker to one loop. Counted: the loop's bus
// holds one reference, so does every message in flight and every sender. When the bus is gone,
// messages are dropped. Sending is thread-safe, all else happens on the loop.
#ifndef CULVERT_SERVER_BUS_BUS_PORT_H
#define CULVERT_SERVER_BUS_BUS_PORT_H

#include "base/loop/loop.h"

struct bus_port;

// Embedded in what is sent. drop: the message arrived at a closed port.
struct bus_port_item {
    struct bus_port_item *next;
    void (*open)(struct bus_port_item *item, void *ctx);
    void (*drop)(struct bus_port_item *item);
};

struct bus_port *bus_port_create(struct loop *loop, void *ctx); // one reference
struct bus_port *bus_port_ref(struct bus_port *port);
void bus_port_unref(struct bus_port *port);
// On its loop: from now on messages are dropped. The reference stays the caller's.
void bus_port_close(struct bus_port *port);
// Any thread. Messages of one sender are opened in the order in which they were sent.
void bus_port_send(struct bus_port *port, struct bus_port_item *item);

#endif
