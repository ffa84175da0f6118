// resyncs: the exchanges of digests with the agents of one loop: takes what agents say (tunnel/wire/digest.h), reads
// the store, answers, and hands over what turned out to be gone. A few trees are read at once and a bounded number of
// exchanges is held; what comes beyond waits for its turn. Nothing of it is durable: an exchange that is lost begins
// again. One that found outdated rows confirms nothing: the agent compares again once it has told what was wanted.
// Owned by the intake, on its loop.
//
// What an exchange finds to be gone becomes an ordinary tombstone with the sequence of the record that did not name it,
// so that anything newer wins, however late anything older is applied. What it compares may be older than what was
// acknowledged (a queue may lie in between): then something is sent once more.
#ifndef CULVERT_SERVER_INTAKE_RESYNCS_H
#define CULVERT_SERVER_INTAKE_RESYNCS_H

#include "storage/reports/digest_store.h"
#include "storage/reports/report.h"
#include "tunnel/broker.h"

struct resyncs;

// storage/reports/digest_store.h, or a model of it.
struct resyncs_store {
    void (*tree)(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, digest_store_read on_done,
                 void *arg);
    void (*confirm)(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, uint64_t sequence,
                    digest_store_confirmed on_done, void *arg);
    void (*holds_any)(struct pg *pg, const char *account_id, struct str runtime, digest_store_asked on_done, void *arg);
    void (*rows)(struct pg *pg, const char *account_id, struct str runtime,
                 const uint8_t leaves[DIGEST_STORE_LEAVES / 8], struct str unread, digest_store_listed on_done,
                 void *arg);
};

struct resyncs_options {
    struct pg *pg;
    struct resyncs_store store;
    void *ctx;
    // To the agent. The session may end inside the call.
    void (*answer)(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack);
    void (*on_gone)(void *ctx, const struct report *tombstone); // views valid during the call
};

struct resyncs *resyncs_create(const struct resyncs_options *options);
void resyncs_destroy(struct resyncs *resyncs); // NULL is fine; after pg was closed
void resyncs_take(struct resyncs *resyncs, const struct tunnel_session_info *session, const struct wire_report *record);
void resyncs_forget(struct resyncs *resyncs, struct tunnel_session_ref ref); // the session is over
// Agents that send everything (old ones, those that were asked to) are counted, too.
void resyncs_count_snapshot(struct resyncs *resyncs);

#endif
