// directory: which sessions the process holds, and which of them carries a runtime's calls. One a
// broker, behind one mutex: a call looks its runtime up once (a hash and a compare under an
// uncontended lock, far below the cost of the call), sessions come and go rarely, and one map means
// that a superseded session gets no call from any loop after the moment a newer one opened. Copies
// on every loop would save the lock and lose that.
//
// Rules: newest epoch wins. A session is listed from its handshake on (epoch 0), routes from
// tunnel_directory_open() until it is retired, superseded or removed, and is named by its ref,
// never by a pointer, outside of its own loop. All functions are thread-safe. An entry's counters
// are written by its session's loop and read by anybody.
#ifndef CULVERT_TUNNEL_DIRECTORY_H
#define CULVERT_TUNNEL_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/runtime_key.h"
#include "tunnel/broker.h"

struct tunnel_directory;

struct tunnel_entry {
    struct tunnel_session_info info; // fixed after tunnel_directory_add(), but epoch, which the directory guards
    atomic_uint_fast64_t rtt_us, bytes_in, bytes_out;
    atomic_uint streams_open;
    bool took_over;                // from another instance: returned by tunnel_directory_open(), for the session
    struct directory_route *route; // guarded by the directory, as are the rest
    bool standby;
    struct tunnel_entry *next, **link; // of the same runtime
};

typedef void (*tunnel_directory_fn)(void *arg, struct tunnel_session_ref ref);

struct tunnel_directory *tunnel_directory_create(uint64_t (*now_ms)(void)); // monotonic milliseconds
void tunnel_directory_destroy(struct tunnel_directory *directory);          // empty by then

// Copies info; the entry belongs to the session until it removes it.
struct tunnel_entry *tunnel_directory_add(struct tunnel_directory *directory, const struct tunnel_session_info *info);
void tunnel_directory_remove(struct tunnel_directory *directory, struct tunnel_entry *entry);

// Makes the session the runtime's. on_older gets every session of the runtime that has an older
// epoch. ERROR_CONFLICT: there is one with the same or a newer epoch (*out_newer), nothing was
// changed.
MUST_CHECK enum error_code tunnel_directory_open(struct tunnel_directory *directory, struct tunnel_entry *entry,
                                                 uint64_t epoch, tunnel_directory_fn on_older, void *arg,
                                                 uint64_t *out_newer);
void tunnel_directory_stand_by(struct tunnel_directory *directory, struct tunnel_entry *entry, bool stands_by);
// Every session of the runtime that stands by.
void tunnel_directory_match_standbys(struct tunnel_directory *directory, const struct runtime_key *key,
                                     tunnel_directory_fn on_match, void *arg);
// No calls any more. True: it got them until now.
bool tunnel_directory_retire(struct tunnel_directory *directory, struct tunnel_entry *entry);
// epoch: 0, or the only one that will do.
MUST_CHECK bool tunnel_directory_find(struct tunnel_directory *directory, const struct runtime_key *key, uint64_t epoch,
                                      struct tunnel_session_ref *out);
// Nothing is found from this moment on (clock_mono_ms); looked at in each find, so that a process
// that was stopped for a while routes nothing by what it knew before.
void tunnel_directory_route_until(struct tunnel_directory *directory, uint64_t mono_ms);
// Had the runtime a session in this process within the last within_ms? (Whether it is worth while
// to wait for it.)
bool tunnel_directory_was_here(struct tunnel_directory *directory, const struct runtime_key *key, uint64_t within_ms);

// Every session of the runtime that was authenticated with token_id (NULL: with any).
void tunnel_directory_match(struct tunnel_directory *directory, const char *account_id, const char *runtime,
                            const char *token_id, tunnel_directory_fn on_match, void *arg);
// Every session of the runtime with an epoch below newer_epoch that has one.
void tunnel_directory_match_older(struct tunnel_directory *directory, const struct runtime_key *key,
                                  uint64_t newer_epoch, tunnel_directory_fn on_match, void *arg);
void tunnel_entry_snapshot(const struct tunnel_entry *entry, struct tunnel_session_info *out); // on its session's loop
void tunnel_directory_each(struct tunnel_directory *directory,
                           void (*on_each)(void *arg, const struct tunnel_session_info *session), void *arg);
// Copies of the next sessions that have an epoch, `max` at most; gives where the next part begins,
// 0 for the first one and after the last one. Between two parts sessions come and go, and the order
// with them: one may be met twice in a round, or only in the next one.
size_t tunnel_directory_part(struct tunnel_directory *directory, size_t from, struct tunnel_session_info *out,
                             size_t max, size_t *out_count);

#endif
