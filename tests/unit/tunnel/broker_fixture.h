// broker_fixture: a broker on two loops with a made-up authority, and calls whose outcome the
// test's thread waits for.
#ifndef CULVERT_TESTS_BROKER_FIXTURE_H
#define CULVERT_TESTS_BROKER_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/unit/tunnel/fake_agent.h"
#include "tunnel/broker.h"

enum { FIXTURE_NODES = 2, FIXTURE_WAIT_MS = 20000 };

#define FIXTURE_ACCOUNT "0123456789abcdef01234567"
#define FIXTURE_TOKEN   "0123456789abcdef01234567.abababababababababababababababababababababababababababababababab"

#define FIXTURE_TOKEN_OTHER                                                                                            \
    "0123456789abcdef01234568.abababababababababababababababababababababababababababababababab" // of "other"

#define FIXTURE_ACCOUNT_FOREIGN "fedcba9876543210fedcba98"
#define FIXTURE_TOKEN_FOREIGN                                                                                          \
    "0123456789abcdef01234569.abababababababababababababababababababababababababababababababab" // of its "demo"

struct fixture {
    struct tunnel_broker *broker;
    struct loop *loops[FIXTURE_NODES];
    struct tunnel_node *nodes[FIXTURE_NODES];
    int port;
    char folder[64], certificate[96], key[96];
    atomic_uint_fast64_t epoch;
    atomic_uint openings, opened, closed, drained;
    atomic_bool hold_opening;             // answers nothing until fixture_answer_held()
    atomic_bool stale_epochs;             // gives epochs out in falling order
    atomic_bool stand_by;                 // whoever asks is told to
    atomic_bool revoke_on_entry, revoked; // the token, right after it was found valid; it is valid no more
    atomic_uint retired;
    atomic_uint opened_node; // of the last session that opened
    atomic_uint reports, report_errors, reloads, reloads_failed;
    atomic_uint reports_pause_every; // 0: never
    pthread_mutex_t mutex;
    struct tunnel_session_ref last; // guarded by mutex, as is the rest
    struct tunnel_session_ref held; // the last opening that was not answered
    char close_reason[128];
};

// tune may be NULL; it changes the options before the broker is made.
void fixture_start(struct fixture *fixture, void (*tune)(struct tunnel_options *options));
void fixture_stop(struct fixture *fixture);
struct fake_agent *fixture_agent(struct fixture *fixture,
                                 const struct fake_agent_options *options); // port is filled in
struct fake_agent *fixture_agent_up(struct fixture *fixture);               // and waits
struct fake_agent *fixture_agent_up_as(struct fixture *fixture, const char *instance_id);
void fixture_answer_held(struct fixture *fixture);
void fixture_resume_reports(struct fixture *fixture); // on the last session
void fixture_drain(struct fixture *fixture, uint64_t deadline_ms);
void fixture_reload_tls(struct fixture *fixture); // node 0
void fixture_acknowledge(struct fixture *fixture, uint64_t sequence);

// Polls; fails the test when it never comes true.
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        struct fixture_wait wait_ = fixture_wait_begin();                                                              \
        while (!(condition))                                                                                           \
            if (!fixture_wait_more(&wait_)) fail_msg("never came true: %s", #condition);                               \
    } while (0)
struct fixture_wait {
    uint64_t until_ms;
};
struct fixture_wait fixture_wait_begin(void);
bool fixture_wait_more(struct fixture_wait *wait);

// A call made on a node's loop.
struct fixture_call {
    struct fixture *fixture;
    unsigned node;
    const char *method, *path, *runtime, *protocol; // NULL: GET, -, the runtime, none
    const char *account;                            // NULL: the account
    uint64_t upload_bytes;
    uint64_t later_bytes; // of them, written after fixture_call_go_on() only
    uint64_t head_timeout_ms;
    uint64_t epoch;
    bool holds; // consumes nothing until fixture_call_release()
    bool cancels_on_head, cancels_on_data, cancels_at_once;
    bool uploads_behind_end; // only when the far end has ended its half
    bool sends_trailers;     // behind its upload: one that goes, three that must not
    // The outcome.
    atomic_int status, cause;
    atomic_uint_fast64_t received, trailers, infos, taken, remote_ends;
    atomic_bool wrong_bytes, done;
    struct tunnel_call *call; // on its loop
    uint64_t upload_left, held;
};
void fixture_call_start(struct fixture_call *call);
void fixture_call_release(struct fixture_call *call); // consumes what is held and goes on
void fixture_call_cancel(struct fixture_call *call);
void fixture_call_go_on(struct fixture_call *call);

#endif
