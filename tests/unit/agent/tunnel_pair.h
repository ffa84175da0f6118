// tunnel_pair: both ends of a tunnel in one process for tests: the agent's session with everything
// behind it, and an HTTP/2 client in the platform's place, joined in memory.
#ifndef CULVERT_TESTS_AGENT_TUNNEL_PAIR_H
#define CULVERT_TESTS_AGENT_TUNNEL_PAIR_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/calls/calls.h"
#include "agent/calls/router.h"
#include "agent/calls/router_settings.h"
#include "agent/tunnel/session.h"
#include "base/loop/loop.h"
#include "base/strbuf.h"
#include "tunnel/wire/identity.h"

enum { PAIR_CALLS_MAX = 16 };

struct pair_call {
    struct tunnel_pair *pair;
    int32_t id;
    int status;          // of the final head
    unsigned infos;      // 1xx heads
    struct strbuf heads; // "name: value\n" of the final head
    struct strbuf body, trailers;
    bool end;    // END_STREAM came
    bool closed; // the stream is over
    uint32_t code;
    bool hold;        // do not give window back
    size_t held;      // bytes that were not
    struct strbuf up; // request body that waits
    size_t up_at;
    bool up_end, up_deferred;
    const char *const *up_trailers; // name, value, ..., NULL; behind the body
};

struct tunnel_pair {
    struct loop *loop;
    struct router_settings settings;
    struct agent_router *router;
    const char *tcp;       // tcp.allow; set between init and open
    struct agent_tls *tls; // for https services; the same
    struct upstream_pool *pool;
    struct upstream_http2 *http2;
    struct app_proxy_graphql *app_proxy;
    struct agent_calls *calls;
    struct agent_session *agent;
    nghttp2_session *platform;
    struct agent_tunnel_trust trust; // bound, with the clock of the platform as ours
    uint64_t signed_calls;
    char identity[WIRE_IDENTITY_BYTES_MAX + 1]; // of the last call
    struct pair_call call[PAIR_CALLS_MAX];
    unsigned call_count;
    uint64_t granted_bytes; // window that the agent gave on streams
    uint64_t connection_window_bytes;
    bool goaway;
    size_t agent_bytes; // that the agent has sent
};

struct pair_request {
    const char *method, *path, *authority, *protocol;
    bool anonymous; // no identity
    const char *identity;
    const char *const *headers; // name, value, ..., NULL
    bool body;                  // more follows by tunnel_pair_write()
};

// Makes the loop, for whatever else a test runs on it.
void tunnel_pair_init(struct tunnel_pair *pair);
// services, webhooks: as in the agent's configuration. Opens the tunnel.
void tunnel_pair_open(struct tunnel_pair *pair, const char *services, const char *webhooks);
void tunnel_pair_finish(struct tunnel_pair *pair);
struct pair_call *tunnel_pair_call(struct tunnel_pair *pair, const struct pair_request *request);
void tunnel_pair_write(struct pair_call *call, const void *at, size_t len, bool end);
void tunnel_pair_reset(struct pair_call *call);
void tunnel_pair_release(struct pair_call *call); // ends holding: gives back what was held
// Turns the loop until done(arg), or fails the test after ten seconds.
void tunnel_pair_run(struct tunnel_pair *pair, bool (*done)(void *arg), void *arg);
void tunnel_pair_run_to_close(struct pair_call *call);
const char *pair_text(const struct strbuf *b);

#endif
