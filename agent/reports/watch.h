// watch: one kind of object in one namespace (or in all), followed for ever: a paged list, then a watch from the list's
// resourceVersion with bookmarks; the watch ends and goes on where it was, 410 Gone lists again, trouble is retried
// with jitter. It looks after itself: a list or watch without any byte for too long is started anew, alone; how long
// that is, a watch learns from the rhythm of its bookmarks. A kind that is not served (404) or not allowed (403) is
// requested again after a second, then ever more slowly: an API server that has just started answers 403 until it has
// loaded its RBAC rules. One that is not served counts as an empty list; of one that is not allowed nothing is known,
// and what was known of it stays. Objects pass through one by one; nothing is kept of them. Owned by the collector; the
// loop of its client; time comes from watch_tick().
//
// What is known of the kind is its state, by what the API server answers to lists and watches:
//
//                  200         403              404           no answer, or another one
//     UNKNOWN      FOLLOWED    FORBIDDEN (1)    NOT_SERVED    BLIND
//     FOLLOWED     -           DENIED           NOT_SERVED    BLIND
//     BLIND        FOLLOWED    FORBIDDEN (1)    NOT_SERVED    -
//     FORBIDDEN    FOLLOWED    -                NOT_SERVED    -    (2)
//     DENIED       FOLLOWED    -                NOT_SERVED    -
//     NOT_SERVED   FOLLOWED    FORBIDDEN (1)    -             -    (2)
//
// (1) DENIED when it was followed before, or must be readable. (2) Nothing is followed, so an outage hides nothing.
// Only BLIND and DENIED miss changes (watch_blind_since_ms).
// Source: Kubernetes API concepts, "Efficient detection of changes" and "Retrieving large results sets in chunks".
#ifndef CULVERT_AGENT_WATCH_H
#define CULVERT_AGENT_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/kube_client.h"

struct watch;

enum watch_state {
    WATCH_UNKNOWN,    // no answer yet
    WATCH_FOLLOWED,   // listed; changes arrive
    WATCH_BLIND,      // the API server does not answer as it should
    WATCH_FORBIDDEN,  // 403, and nothing of it has been read since the agent started or since it was not served
    WATCH_DENIED,     // 403, although it was read before or must be readable
    WATCH_NOT_SERVED, // 404
};

enum watch_event { WATCH_LISTED, WATCH_CHANGED, WATCH_DELETED };

struct watch_events {
    // object is the callee's to change, not to keep; kind and apiVersion are always there.
    void (*on_object)(void *arg, struct watch *watch, enum watch_event event, json_t *object);
    // A list begins; what is not listed until on_listed is gone.
    void (*on_listing)(void *arg, struct watch *watch);
    // The list is complete. status 404: the kind is not served, the list counts as empty. 403: nothing was listed, and
    // nothing follows from that.
    void (*on_listed)(void *arg, struct watch *watch, int status);
    // Back-pressure: false pauses reading until watch_resume(). May be NULL.
    bool (*may_read)(void *arg);
};

struct watch_options {
    struct kube_client *client;
    const char *group, *version, *plural, *kind; // group "" for core
    const char *ns;                              // NULL: all, or not namespaced
    const char *label_selector;                  // NULL: none
    unsigned page_limit;                         // objects a page, 0: 250
    uint64_t watch_seconds;                      // timeoutSeconds of a watch, 0: 300 (spread by a fifth)
    uint64_t silence_ms;                         // of a list, and beyond a watch's own time-out; 0: 30,000
    uint64_t retry_base_ms, retry_cap_ms;        // 0: 500 and 30,000
    uint64_t absent_retry_ms;                    // at most, after 403 and 404; 0: 60,000 (spread by a half)
    bool needed;                                 // not being allowed to read it is blindness, also from the start
    const struct watch_events *events;           // outlives the watch
    void *arg;
};

// Texts of the options are copied. It starts with the first watch_tick().
struct watch *watch_create(const struct watch_options *options);
// No callback follows. Allowed inside its callbacks.
void watch_destroy(struct watch *watch);
// Deadlines and retries; call it a few times a second.
void watch_tick(struct watch *watch, uint64_t now_ms);
// Lists from the beginning as soon as possible (a snapshot is wanted).
void watch_relist(struct watch *watch);
// Connections may have died since then without a sign: a watch that has had no byte since is begun anew where it was.
// since_ms: monotonic.
void watch_renew(struct watch *watch, uint64_t since_ms);
void watch_resume(struct watch *watch);

bool watch_is_listed(const struct watch *watch); // the last list has completed, or the kind cannot be listed
enum watch_state watch_state(const struct watch *watch);
bool watch_is_absent(const struct watch *watch);    // WATCH_NOT_SERVED
bool watch_is_forbidden(const struct watch *watch); // WATCH_FORBIDDEN, WATCH_DENIED
bool watch_is_partial(const struct watch *watch);   // the last list held objects that are too large or unreadable
uint64_t watch_restarts(const struct watch *watch);
// Since when changes may have gone unseen: WATCH_BLIND, WATCH_DENIED. 0: all is seen.
uint64_t watch_blind_since_ms(const struct watch *watch);
const char *watch_kind(const struct watch *watch);
const char *watch_ns(const struct watch *watch); // NULL: all
const char *watch_group(const struct watch *watch);
const char *watch_version(const struct watch *watch);

#endif
