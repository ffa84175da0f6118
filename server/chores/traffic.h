// traffic: hot counters: how many reports each runtime brought and how many requests each account
// made, by the minute, for people who look (`culvertd admin traffic`). Counted in memory, added up
// in Redis once a second by all loops of all replicas, kept there for twenty minutes. A hint and no
// record: what Redis loses is lost, and nothing depends on it. One a loop.
#ifndef CULVERT_SERVER_CHORES_TRAFFIC_H
#define CULVERT_SERVER_CHORES_TRAFFIC_H

#include "base/loop/loop.h"
#include "base/runtime_key.h"
#include "base/str.h"
#include "storage/redis/redis.h"

struct traffic;

enum { TRAFFIC_MINUTES_MAX = 20 };

struct traffic *traffic_create(struct loop *loop, struct redis *redis);
void traffic_destroy(struct traffic *traffic); // before redis is closed; NULL is fine

void traffic_count_reports(struct traffic *traffic, const struct runtime_key *key, unsigned count);
void traffic_count_call(struct traffic *traffic, struct str account_id);

// What the last minutes brought, the present one last: one JSON object a line,
// {"minute": RFC 3339, "reports": {"<account>/<runtime>": n}, "calls": {"<account>": n}}.
typedef void (*traffic_summed)(void *arg, const struct error *err, struct str lines);
void traffic_tell(struct redis *redis, unsigned minutes, traffic_summed on_summed, void *arg);

#endif
