// platform: two replicas of the platform's core (intake, its bus, event handler and exchanges of
// digests, over one model of the database), and the links that agents have to them: a link is one
// tunnel's reports stream, both ways, late, in pieces, with a window, and cut at either end. One
// thread.
#ifndef CULVERT_TESTS_SIM_PLATFORM_H
#define CULVERT_TESTS_SIM_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/reports/report_stream.h"
#include "base/loop/loop.h"
#include "tests/sim/store.h"

enum { PLATFORM_REPLICAS = 2 };

struct platform;
struct link;

// The agent's end of a link.
struct link_events {
    void (*on_open)(void *arg, struct link *link); // the platform wants reports: link_sink()
    void (*on_bytes)(void *arg, struct link *link, const uint8_t *at, size_t len);
    void (*on_writable)(void *arg, struct link *link);
    void (*on_closed)(void *arg, struct link *link); // the link is gone when this returns
};

struct platform *platform_create(struct loop *loop, struct store *store, const struct link_events *events, void *arg);
void platform_destroy(struct platform *platform); // links and replicas go at once
void platform_set_faults(struct platform *platform, bool faults);
bool platform_is_up(const struct platform *platform, unsigned replica);
void platform_start(struct platform *platform, unsigned replica);
void platform_kill(struct platform *platform, unsigned replica); // its links close
bool platform_is_idle(const struct platform *platform);

// NULL: no replica is up.
struct link *link_dial(struct platform *platform);
// The agent closes it, or is gone: no event follows; what is on its way still arrives for a while.
void link_abandon(struct link *link);
void link_sink(struct link *link, struct report_sink *out);
// One end of some link sees it end, the other one sooner or later.
void platform_cut(struct platform *platform);

#endif
