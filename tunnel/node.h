// node: one loop's part of the broker: the listener, the sessions that came in through it, the
// calls made on this loop. Private to tunnel/. Everything here is touched on the node's loop only,
// but `refs` and what tunnel_node_post() needs. A node's memory outlives tunnel_node_destroy()
// until the last message to it has arrived.
#ifndef CULVERT_TUNNEL_NODE_H
#define CULVERT_TUNNEL_NODE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/connection_limiter.h"
#include "base/loop/listener.h"
#include "base/loop/timer.h"
#include "base/loop/turn.h"
#include "base/quota.h"
#include "tunnel/broker.h"
#include "tunnel/directory.h"
#include "tunnel/listener/deadline_table.h"
#include "tunnel/listener/ws.h"
#include "tunnel/session/id_map.h"
#include "tunnel/session/life.h"
#include "tunnel/session/meter.h"
#include "tunnel/session/session_memory.h"
#include "tunnel/session/tenant.h"

enum { TUNNEL_NODES_MAX = 64, TUNNEL_HANDSHAKES_MAX = 256 };

struct tunnel_broker {
    struct tunnel_options options; // with copies of the strings
    struct tunnel_directory *directory;
    struct tunnel_meter meter;
    struct quota sessions;
    struct connection_limiter *session_addresses, *handshake_addresses; // NULL: no cap
    pthread_rwlock_t lock;                                              // guards nodes
    struct tunnel_node *nodes[TUNNEL_NODES_MAX];
    atomic_uint refs; // its nodes' and its own
};

struct tunnel_node {
    atomic_uint refs;
    struct tunnel_broker *broker;
    struct loop *loop;
    unsigned index;
    bool closed; // destroyed: messages are discarded

    struct turn turn;
    struct tunnel_meter_cache meter_cache;
    struct timer tick;
    struct tunnel_life_rules life; // of every session here
    struct listener *listener;     // NULL while draining
    struct tunnel_ws_server *ws_server;

    struct id_map sessions; // id -> struct tunnel_session
    struct tunnel_session *session_list;
    struct deadline_table deadlines; // when which of them is looked at
    unsigned session_count;
    uint64_t last_session_id;
    struct id_map calls; // key -> struct tunnel_call
    struct tunnel_call *call_list;
    uint64_t last_call;
    struct id_map relays; // key of a call on another node -> struct tunnel_relay
    struct tunnel_relay *relay_list;

    struct tunnel_tenants tenants;     // of the sessions
    struct session_memory_pool memory; // of the sessions' nghttp2
    uint64_t buffered_bytes;           // received by sessions, not yet consumed
    uint64_t window_bytes;             // windows granted above a stream's first
    uint64_t kept_bytes;               // of requests that may have to be opened again
    uint64_t record_bytes;             // promised to long report records that are being put together
    double handshake_tokens;
    uint64_t handshake_at_ms;

    bool draining;
    uint64_t drain_at_ms, drain_deadline_ms;
    loop_fn on_drained;
    void *on_drained_arg;
};

// Thread-safe. fn(node, arg) runs on the node's loop, in the order posted by one sender. False:
// there is no such node (any more) and fn will not run. fn must look at node->closed first and then
// only free arg.
typedef void (*tunnel_node_fn)(struct tunnel_node *node, void *arg);
bool tunnel_node_post(struct tunnel_broker *broker, unsigned index, tunnel_node_fn fn, void *arg);
// A session that came from there is over: its place among those of the process and of the address
// is free.
void tunnel_node_release(struct tunnel_node *node, const char *remote);
// Sends DRAIN to the node's sessions, one after the other over that span.
void tunnel_node_move_sessions(struct tunnel_node *node, uint64_t spread_ms);
void tunnel_node_ref(struct tunnel_node *node);
void tunnel_node_unref(void *node);
void tunnel_broker_unref(struct tunnel_broker *broker);

#endif
