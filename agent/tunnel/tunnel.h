// tunnel: one life of the connection to the platform: a link and, once it is open, the session over
// it. It ends by itself (link lost, retired and idle) or by agent_tunnel_destroy(). Owned by the
// tunnel client; one loop.
#ifndef CULVERT_AGENT_TUNNEL_H
#define CULVERT_AGENT_TUNNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tunnel/link.h"
#include "agent/tunnel/session.h"
#include "base/id.h"
#include "tunnel/wire/control.h"
#include "tunnel/wire/replay_window.h"

struct agent_tunnel;

// How a caller through a tunnel proves its identity (tunnel/wire/identity.h).
struct agent_tunnel_trust {
    uint8_t key[ID_SHA256_BYTES]; // of the token that it was dialed with
    bool is_bound;                // the platform binds identities to calls: nothing else is good
    uint64_t epoch;
    int64_t platform_ahead_ms; // the platform's wall clock less our monotonic one
    struct replay_window replays;
};

enum agent_tunnel_state {
    AGENT_TUNNEL_OPENING,  // until the platform's HELLO_ACK, which a standby waits long for
    AGENT_TUNNEL_SERVING,  // carries calls
    AGENT_TUNNEL_RETIRING, // GOAWAY sent: calls in flight finish
};

struct agent_tunnel_events {
    void (*on_serving)(void *arg, struct agent_tunnel *tunnel);
    void (*on_request)(void *arg, struct agent_tunnel *tunnel, struct agent_stream *stream);
    // The platform asks for another tunnel after rand(0, spread_ms); this one lives for deadline_ms
    // more.
    void (*on_drain)(void *arg, struct agent_tunnel *tunnel, uint64_t spread_ms, uint64_t deadline_ms,
                     struct str reason);
    void (*on_superseded)(void *arg, struct agent_tunnel *tunnel, uint64_t epoch, struct str reason);
    // Another agent serves; this tunnel, still opening, waits for its turn.
    void (*on_standby)(void *arg, struct agent_tunnel *tunnel, struct str reason);
    // WIRE_CONTROL_OPERATION, while the tunnel serves.
    void (*on_operation)(void *arg, struct agent_tunnel *tunnel, const struct wire_control *operation);
    // The last event; the tunnel is freed when it returns.
    void (*on_end)(void *arg, struct agent_tunnel *tunnel, const struct agent_link_end *end);
};

MUST_CHECK enum error_code
agent_tunnel_start(uv_loop_t *loop, struct agent_tls *tls, const struct agent_link_target *target,
                   const struct agent_session_options *options, const uint8_t key[ID_SHA256_BYTES],
                   const struct agent_tunnel_events *events, void *arg, struct agent_tunnel **out, struct error *err);
// GOAWAY; ends when its calls have finished or after deadline_ms.
void agent_tunnel_retire(struct agent_tunnel *tunnel, uint64_t deadline_ms);
// At once, with a reason in the CLOSE frame; streams get their on_close, no event of the tunnel
// follows. Not inside an event.
void agent_tunnel_destroy(struct agent_tunnel *tunnel, struct str reason);

// False: it cannot leave now, because another one waits or the tunnel has ended.
bool agent_tunnel_send_control(struct agent_tunnel *tunnel, const struct wire_control *control);

enum agent_tunnel_state agent_tunnel_state(const struct agent_tunnel *tunnel);
struct agent_tunnel_trust *agent_tunnel_trust(struct agent_tunnel *tunnel);
uint64_t agent_tunnel_epoch(const struct agent_tunnel *tunnel);
uint64_t agent_tunnel_rtt_us(const struct agent_tunnel *tunnel);
uint64_t agent_tunnel_serving_ms(const struct agent_tunnel *tunnel); // for how long; 0 before HELLO_ACK
unsigned agent_tunnel_stream_count(const struct agent_tunnel *tunnel);

#endif
