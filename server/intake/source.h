// source: a session that has sent reports: which of them are under way, how far it may be acknowledged, and the end of
// its snapshot while it waits. Reports may end in any order (a bus has more than one way); the acknowledgement, being
// cumulative, follows the oldest that has not. One loop's; intake's.
#ifndef CULVERT_SERVER_INTAKE_SOURCE_H
#define CULVERT_SERVER_INTAKE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "tunnel/broker.h"

struct source;

// One report on its way. It outlives its source when the session ends meanwhile.
struct in_flight {
    void *owner;           // whose callback gets it
    struct source *source; // NULL: gone
    struct in_flight *next;
    uint64_t sequence;
    bool is_end; // of a snapshot
    enum { IN_FLIGHT_WAITING, IN_FLIGHT_DONE, IN_FLIGHT_LOST } state;
};

// The end of a snapshot, apart from the other reports.
struct source_end {
    enum {
        SOURCE_END_NONE,
        SOURCE_END_HELD,    // until what came before it is durable
        SOURCE_END_AWAITED, // somebody else applies it: what it comes to stands in the database
    } state;
    uint64_t sequence, count;
    int64_t observed_at_ms;
    char *unread;      // owned; NULL: none
    uint64_t since_ms; // awaited
    bool is_asking;
};

struct source {
    struct table_node node; // of the source_table
    struct tunnel_session_ref ref;
    char account_id[64], runtime[128];
    uint64_t epoch;
    struct in_flight *first, **last; // by sequence
    uint64_t acknowledge;            // so far everything is durable
    uint64_t sent;                   // as acknowledged to the agent
    bool resync;
    uint64_t bad, bad_at_ms; // compressed manifests that were refused, see intake.c
    struct source_end end;
    struct list unacknowledged, paused, awaited; // entries
};

struct source *source_create(const struct tunnel_session_info *session);
void source_destroy(struct source *source);

struct in_flight *source_enter(struct source *source, void *owner, uint64_t sequence, bool is_end);
// The report is durable or refused (done), or will not be. Frees the in_flight, now or later; gives its source, NULL:
// gone.
struct source *in_flight_leave(struct in_flight *in_flight, bool done);
// It was never sent.
void in_flight_withdraw(struct in_flight *in_flight);

// Those of a loop, by session.
struct source_table;
struct source_table *source_table_create(void);
void source_table_destroy(struct source_table *table);                                             // and all in it
struct source *source_table_find(const struct source_table *table, struct tunnel_session_ref ref); // NULL: none
// Finds or makes it.
struct source *source_table_get(struct source_table *table, const struct tunnel_session_info *session);
void source_table_remove(struct source_table *table, struct tunnel_session_ref ref); // and ends it, if there is one

#endif
