// registry: which replica holds a runtime's session, for one loop. The authority is PostgreSQL; in
// front of it stand this loop's memory (server/sessions/registry_table.h) and the lines that
// replicas leave in Redis. Neither is trusted for more than speed: the owner checks account,
// runtime and epoch of every call, and answers 421 when we were wrong.
//
// Messages between replicas in Redis, one line per key or message, fields separated by a space:
//   key `culvert:2:tunnel:<account>:<runtime>` "<epoch> <replica> <address>"    address "-": it has
// no peer listener
//   channel `culvert:2:tunnels`                "open <account> <runtime> <epoch> <replica> <address>"
//                                              "over <account> <runtime> <epoch>"
// Each is signed for its key or channel and until when it counts (registry_line_sign); a line that
// is not is dropped and counted (storage/redis/redis_guard.h). One that is played back in its place
// changes nothing: epochs only grow. Everything on its loop.
#ifndef CULVERT_SERVER_REGISTRY_H
#define CULVERT_SERVER_REGISTRY_H

#include "base/error.h"
#include "base/purpose_key.h"
#include "base/runtime_key.h"
#include "server/sessions/registry_table.h"
#include "storage/pg/pg.h"
#include "storage/redis/redis.h"
#include "tunnel/broker.h"

struct registry;
struct registry_query;

struct registry_options {
    struct pg *pg;
    struct redis *redis;          // may be NULL
    struct purpose_key key;       // signs the lines in Redis; copied
    struct tunnel_broker *broker; // whose older sessions end when a newer one is elsewhere
    const char *replica;
    const char *address; // of our peer listener, empty: none
    bool supersedes;     // one loop of the replica acts upon news of newer and ended sessions
    size_t entries_max;
};

// UNKNOWN: no source answers now. NOBODY: gone_ms has since when, UINT64_MAX: it never had one.
struct registry_answer {
    enum registry_known known;
    struct registry_place place;
    uint64_t gone_ms;
};
// Once, later.
typedef void (*registry_done)(void *arg, const struct registry_answer *answer);

struct registry *registry_create(const struct registry_options *options);
void registry_stop(struct registry *registry);    // queries under way are forgotten
void registry_destroy(struct registry *registry); // after pg and redis were closed

// fresh: from PostgreSQL, whatever is remembered. NULL: *out has the answer already.
struct registry_query *registry_ask(struct registry *registry, const struct runtime_key *key, bool fresh,
                                    struct registry_answer *out, registry_done on_done, void *arg);
// What is remembered, for nothing. False: nothing, or that no replica has it.
bool registry_peek(struct registry *registry, const struct runtime_key *key, struct registry_place *out);
void registry_query_cancel(struct registry_query *query); // on_done does not come
// The owner reported that it is not there (421), or could not be reached: what is known up to that
// epoch is in doubt.
void registry_doubt(struct registry *registry, const struct runtime_key *key, uint64_t epoch);

// A session of ours opened or ended: notifies the others.
void registry_tell_open(struct registry *registry, const struct tunnel_session_info *session);
void registry_tell_over(struct registry *registry, const struct tunnel_session_info *session);

#endif
