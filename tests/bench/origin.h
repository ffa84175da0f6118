// origin: the service behind every way that is measured; origin.c says what it answers. One thread, one epoll.
#ifndef BENCH_ORIGIN_H
#define BENCH_ORIGIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORIGIN_HEAD_BYTES_MAX = 16 * 1024 };

// What a connection is at. `in` holds what was read and not understood yet.
struct origin_connection {
    int fd;
    enum origin_work { ORIGIN_HEADS, ORIGIN_SENDS, ORIGIN_TAKES, ORIGIN_EVENTS, ORIGIN_SOCKET } work;
    uint64_t done, bytes; // of the body that goes out or comes in
    bool exact;           // the body that came in so far
    uint64_t due_ns, every_ns;
    struct origin_connection *next; // of those with events
    size_t used;
    char in[ORIGIN_HEAD_BYTES_MAX];
};

// Writes all of it or says false: small answers fit an empty send buffer.
bool origin_write(struct origin_connection *connection, const void *data, size_t bytes);

// origin_live.c: the answers that go on. Each says false when the connection is of no more use.
bool origin_events_start(struct origin_connection *connection, unsigned per_second);
bool origin_events_write(struct origin_connection *connection);
bool origin_socket_start(struct origin_connection *connection, const char *head);
bool origin_socket_take(struct origin_connection *connection);

#endif
