// fake_broker: a test double of the tunnel broker's calls (tunnel/broker.h): the path of a request
// says how its answer goes. It runs on the loop of the listener under test; the test's thread asks
// what happened.
//
//   /hello            200, Content-Length 5, "hello"
//   /chunked          200 without length: "one" "two", trailers
//   /echo             200 at once, the body comes back as it arrives
//   /sink             takes the body (100 Continue to who expects it), then answers with the number of bytes; see
//                     fake_broker_toggle_sink()
//   /big/<n>          n bytes, 64 KiB of credit
//   /hang             never answers          /head-only   a head, then nothing
//   /short /long      less and more than the announced length
//   /hostile          headers that must not reach a browser
//   /early            answers without waiting for the body
//   /status/<n>       that status, no body
//   /fail/<n>, /webhooks/fail/<n>   fails with the cause n
//   /interim          102, 103, then 200
//   /events           text/event-stream, one event, then nothing
//   /sse-flood        text/event-stream without end
// Extended CONNECT: 200 and an echo; with the path /refuse: 403; /declined/<status>: the service
// answered with that status in place of switching, "plain"; with /tcp/ends-first: "bye", and its
// half ends, but not the client's; with /tcp/silent: 200 and nothing more, also when the client's
// half has ended.
#ifndef CULVERT_TESTS_FAKE_BROKER_H
#define CULVERT_TESTS_FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop/loop.h"

enum { FAKE_BROKER_WAIT_MS = 10000 };

struct fake_broker_seen {
    unsigned loop;                     // index of the one that opened the last call
    unsigned opened, ended, cancelled; // calls, complete request bodies, cancels
    uint64_t body_bytes, sent_bytes;
    uint64_t unconsumed_bytes; // answer bytes whose credit is out
    char account[64], runtime[128], method[32], path[256], protocol[32], user[64];
    char headers[8192];  // "name: value\n"
    char trailers[1024]; // of requests, in the same form
};

// Before any call; the loop that calls are made on, unless fake_broker_set_node() is used: then
// each runs on the loop that made it, and no two at once.
void fake_broker_start(struct loop *loop);
void fake_broker_stop(void); // no call may be open
struct fake_broker_seen fake_broker_seen(void);
// The sink begins by taking everything; closed, it returns "full" after each write; opened again,
// it says "writable".
void fake_broker_toggle_sink(void);
// From now on calls are answered by a session of that loop: so says tunnel_call_node().
void fake_broker_set_node(unsigned index);
// Waits until the predicate holds; fails the test after FAKE_BROKER_WAIT_MS.
void fake_broker_wait(bool (*holds)(const struct fake_broker_seen *seen));

#endif
