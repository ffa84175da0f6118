// live_options: what subscriptions of a loop are made with (api/live/live.h).
#ifndef CULVERT_API_LIVE_LIVE_OPTIONS_H
#define CULVERT_API_LIVE_LIVE_OPTIONS_H

#include "api/access/principal.h"
#include "base/connection_limiter.h"
#include "base/loop/loop.h"
#include "base/quota.h"

struct live_options {
    struct loop *loop;
    struct quota *streams;                       // of the process; NULL: no limit
    struct connection_limiter *accounts, *users; // streams of each; NULL: no limit
    unsigned reads_max;                          // statements of this loop at once
    uint64_t delay_ms, refresh_ms, heartbeat_ms;
    uint64_t stall_ms; // a client that takes nothing for so long is cut
    const char *build; // for clients: what they were served by
    // Calls on_void once when the credential is not valid any more or permits something else.
    // Returns what unwatch takes, also after on_void. NULL, both: nothing is watched.
    void *(*watch)(void *ctx, const struct api_principal *who, void (*on_void)(void *arg, bool is_unchecked),
                   void *arg);
    void (*unwatch)(void *watched);
    void *ctx;
};

#endif
