// scripted_service: a TCP server for tests that says what it is told to when it has read what it
// waits for.
#ifndef CULVERT_TESTS_AGENT_SCRIPTED_SERVICE_H
#define CULVERT_TESTS_AGENT_SCRIPTED_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct scripted_service;

struct scripted_step {
    const char *wait;   // until this was received behind what the step before took; NULL: at once
    const char *answer; // sent then; NULL: nothing
    size_t fill_bytes;  // so many 'x' behind it
    bool websocket;     // the answer is a 101 to the key that was received
    bool end;           // then no more is said, but heard
    bool close;         // then close
};

struct scripted_service *scripted_service_create(uv_loop_t *loop, const struct scripted_step *steps, size_t count);
void scripted_service_destroy(struct scripted_service *service);
uint16_t scripted_service_port(const struct scripted_service *service);
const char *scripted_service_received(const struct scripted_service *service); // all connections, in order
unsigned scripted_service_connections(const struct scripted_service *service); // that were ever accepted
unsigned scripted_service_open(const struct scripted_service *service);        // that the other end keeps open
bool scripted_service_done(const struct scripted_service *service);            // every step was made
size_t scripted_service_unsent(const struct scripted_service *service);        // bytes that nobody has read yet

#endif
