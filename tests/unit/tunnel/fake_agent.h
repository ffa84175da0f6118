// fake_agent: an agent for tests of the broker: dials over TLS and WebSocket, serves HTTP/2 on a
// thread of its own and does as it is told. Paths it knows: /hello, /echo, /bytes/N, /hang, /reset,
// /cause, /trailers, /info (a 103 first), /info/N (N of them), /refuse/N (REFUSED_STREAM for the
// first N requests that an agent gets), and the reports stream.
#ifndef CULVERT_TESTS_FAKE_AGENT_H
#define CULVERT_TESTS_FAKE_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_agent;

enum fake_agent_moment {
    FAKE_AGENT_AT_ONCE,
    FAKE_AGENT_OPEN,
    FAKE_AGENT_STANDBY,
    FAKE_AGENT_SUPERSEDED,
    FAKE_AGENT_TOLD, // by fake_agent_tell()
};

struct fake_agent_options {
    int port;
    const char *token;
    const char *runtime, *instance_id;
    unsigned reports;      // records sent after HELLO
    size_t report_bytes;   // one more record with so long a manifest
    bool report_cut;       // whose last byte never comes
    bool reports_refused;  // 404 for the stream
    bool reports_broken;   // the first record is no HELLO
    bool mute;             // reads nothing after the handshake
    bool answers_nothing;  // but the reports stream
    unsigned window_bytes; // of a stream; 0: 64 KiB
    int receive_bytes;     // what its kernel may hold unread; 0: as it likes
    bool bad_control;      // sends a HELLO_ACK, which is the platform's to say
    bool text_frames;      // sends WebSocket text messages
    // How it shows its token: as it is; sealed for its connection, and it wants the platform's
    // proof; sealed for another.
    enum fake_agent_seal { FAKE_AGENT_SAYS_TOKEN, FAKE_AGENT_SEALS_TOKEN, FAKE_AGENT_SEALS_FOR_ANOTHER } seal;
    unsigned words_each_ms; // 0: none; else says so often, by an empty Pong, that it lives,
    unsigned words_max;     // and so many times, then asks by a PING of HTTP/2,
    unsigned asks_more;     // and so many times more, each time when it was answered
    size_t late_bytes;      // so many of the last bytes of a question come some time after the others
    // Bytes that it says once, among its HTTP/2 frames, at that moment. They must outlive it.
    const uint8_t *says;
    size_t says_len;
    enum fake_agent_moment says_when;
};

// What it saw; read from any thread.
struct fake_agent_seen {
    atomic_int status; // of the upgrade; 0: not yet, -1: no answer
    atomic_uint_fast64_t epoch, superseded_by, acked;
    atomic_uint drains, standbys, resets, requests, goaways, identities, trailers, words, words_heard, pings, pongs;
    atomic_uint_fast64_t received; // bytes of requests' bodies
    atomic_bool closed, said;
};

struct fake_agent *fake_agent_start(const struct fake_agent_options *options);
const struct fake_agent_seen *fake_agent_seen(const struct fake_agent *agent);
// From any thread.
void fake_agent_tell(struct fake_agent *agent);      // `says` leaves now; seen.said when it is with the kernel
void fake_agent_mute(struct fake_agent *agent);      // reads nothing from now on
int fake_agent_port(const struct fake_agent *agent); // its own; once it was let in
void fake_agent_stop(struct fake_agent *agent);      // closes and joins

#endif
