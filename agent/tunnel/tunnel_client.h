// tunnel_client: keeps this runtime connected. It dials the platform, holds one serving tunnel
// (link + session), opens the next one before a draining one ends, and waits with full jitter
// between tries. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_TUNNEL_CLIENT_H
#define CULVERT_AGENT_TUNNEL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tunnel/session.h"
#include "agent/tunnel/tunnel.h"
#include "base/error.h"
#include "base/id.h"
#include "base/loop/loop.h"

struct config;
struct tunnel_client;

struct tunnel_client_events {
    // A call arrived. trust verifies its culvert-identity; it lives as long as the stream.
    void (*on_request)(void *arg, struct agent_stream *stream, struct agent_tunnel_trust *trust);
    // The platform asks for a change of the cluster (WIRE_CONTROL_OPERATION). May be NULL.
    void (*on_operation)(void *arg, const struct wire_control *operation);
    // How many objects wait to be reported, for STATS. May be NULL.
    uint64_t (*outbox_depth)(void *arg);
    // How far what was reported is behind the cluster: unacknowledged, and unseen. For STATS; may
    // be NULL.
    void (*lag)(void *arg, uint64_t *out_behind_ms, uint64_t *out_blind_ms);
};

struct tunnel_client_info {
    bool online;  // the platform acknowledged a tunnel that is alive
    bool standby; // a warm standby: another agent serves this runtime
    uint64_t epoch;
    uint64_t rtt_us;
    unsigned streams_open;
    char reason[256]; // why it is not online
};

// NULL with *err when the configuration cannot work: URL, token file, CA file. config outlives the
// client.
struct tunnel_client *tunnel_client_create(struct loop *loop, const struct config *config,
                                           const struct tunnel_client_events *events, void *arg, struct error *err);
void tunnel_client_start(struct tunnel_client *client); // begins to dial
// Reads token file and CA file again. When the token changed a new tunnel replaces the old one. On
// error the old ones stay in use.
MUST_CHECK enum error_code tunnel_client_reload(struct tunnel_client *client, struct error *err);
// GOAWAY on every tunnel, no new ones; on_done once, when streams have finished or deadline_ms has
// passed.
void tunnel_client_drain(struct tunnel_client *client, uint64_t deadline_ms, loop_fn on_done, void *arg);
void tunnel_client_destroy(struct tunnel_client *client); // NULL is fine; streams get their on_close
// Over the serving tunnel. False: not now.
bool tunnel_client_send_control(struct tunnel_client *client, const struct wire_control *control);
void tunnel_client_get_info(const struct tunnel_client *client, struct tunnel_client_info *out);
const char *tunnel_client_boot_id(const struct tunnel_client *client);

#endif
