// swarm: thousands of simulated agents in one process, for measuring and trying the platform's side
// of tunnels. One thread, one epoll. Everything here is private to culvert-agent-swarm
// (agent_swarm.c). An agent (swarm_agent.c) is a runtime with its token: it dials, waits and dials
// again as culvert-agent does. A link (swarm_link.c) is one of its connections: TCP, TLS,
// WebSocket; inside it the least HTTP/2 server that the platform can talk to (swarm_http2.c).
#ifndef CULVERT_TESTS_SWARM_H
#define CULVERT_TESTS_SWARM_H

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/id.h"
#include "base/strbuf.h"
#include "base/token.h"
#include "tunnel/wire/control.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

struct nghttp2_hd_inflater;
struct swarm;
struct swarm_agent;
struct swarm_link;
struct swarm_stream;

// ---- counters ----------------------------------------------------------------------------------------------------

enum swarm_count {
    SWARM_DIALS,
    SWARM_TLS,         // TLS handshakes that were completed
    SWARM_TLS_RESUMED, // of them, those that went on from a ticket
    SWARM_UPGRADED,    // 101s
    SWARM_ACKED,       // HELLO_ACKs: tunnels that carry calls
    SWARM_REFUSED_401, // answers to the upgrade
    SWARM_REFUSED_403,
    SWARM_REFUSED_429,
    SWARM_REFUSED_503,
    SWARM_REFUSED_OTHER,
    SWARM_FAILED_CONNECT, // ended in this phase without an answer
    SWARM_FAILED_TLS,
    SWARM_FAILED_UPGRADE,
    SWARM_FAILED_HELLO,
    SWARM_LOST, // tunnels that had carried calls and ended without having been replaced
    SWARM_DRAINS,
    SWARM_SUPERSEDED,
    SWARM_PINGS, // the platform's
    SWARM_CALLS,
    SWARM_CALLS_REFUSED, // the caller's identity was not for this runtime
    SWARM_REPORT_STREAMS,
    SWARM_REPORTS_ACKED,
    SWARM_PROTOCOL_ERRORS,
    SWARM_COUNTS,
};

// ---- HTTP/2 ------------------------------------------------------------------------------------------------------

struct swarm_http2 {
    struct strbuf in;    // an incomplete frame, or preface
    struct strbuf block; // a header block that CONTINUATION frames go on with
    unsigned preface_seen;
    uint32_t block_stream;
    bool block_ends_stream;
    struct swarm_stream *streams;
    uint32_t reports_stream; // 0: not open
    struct strbuf acks;
    uint64_t sequence; // of the last report record
    uint64_t report_at_ms;
};

void swarm_http2_init(struct swarm_http2 *http2);
void swarm_http2_finish(struct swarm_http2 *http2);
void swarm_http2_start(struct swarm_link *link); // SETTINGS and the connection's window
// False: the peer broke the protocol.
bool swarm_http2_feed(struct swarm_link *link, const uint8_t *at, size_t len);
void swarm_http2_goaway(struct swarm_link *link);
void swarm_http2_tick(struct swarm_link *link, uint64_t now_ms);

// ---- a connection --------------------------------------------------------------------------------------------------

enum swarm_phase { SWARM_CONNECTING, SWARM_IN_TLS, SWARM_IN_UPGRADE, SWARM_IN_HELLO, SWARM_SERVING, SWARM_RETIRING };

struct swarm_link {
    struct swarm *swarm;
    struct swarm_agent *agent;
    struct swarm_link *next, **link; // all of them
    int fd;                          // -1: ended, freed at the end of the turn
    SSL *ssl;
    enum swarm_phase phase;
    bool stalled; // neither reads nor writes: the other end sees silence
    bool wants_out;
    char key[WS_HANDSHAKE_KEY_BYTES];
    struct strbuf answer; // head of the answer to the upgrade
    struct strbuf plain;  // HTTP/2 bytes that this turn made
    struct strbuf out;    // WebSocket frames that TLS has not taken
    struct ws_frame_decoder decoder;
    struct swarm_http2 http2;
    uint64_t epoch;
    uint64_t deadline_ms; // until HELLO_ACK; of a retirement
    uint64_t received_at_ms, pinged_at_ms, said_at_ms;
    bool hears_words;
    char boot_id[ID_UUID_BYTES];
};

// How a link ended: status and retry_after_ms (or -1) of an answer to the upgrade, 0 without one.
struct swarm_end {
    int status;
    int64_t retry_after_ms;
};

struct swarm_link *swarm_link_dial(struct swarm_agent *agent); // NULL: no socket
void swarm_link_on_events(struct swarm_link *link, uint32_t events);
void swarm_link_flush(struct swarm_link *link); // what `plain` holds leaves as one frame
void swarm_link_tick(struct swarm_link *link, uint64_t now_ms);
void swarm_link_stall(struct swarm_link *link, bool stalled);
void swarm_link_end(struct swarm_link *link, const struct swarm_end *end); // tells its agent, NULL: it knows
void swarm_link_free(struct swarm_link *link);                             // after it ended

// ---- an agent
// --------------------------------------------------------------------------------------------------------

struct swarm_agent {
    struct swarm *swarm;
    char account_id[ID_ACCOUNT_BYTES], runtime[64], instance_id[80];
    char token_text[TOKEN_TEXT_BYTES];
    struct token token;
    struct backoff retry, refused;
    SSL_SESSION *tls_session;             // the newest ticket, or NULL
    struct swarm_link *serving, *opening; // others retire
    bool wanted;                          // started, not stopped
    bool replace;                         // dial although one is serving
    uint64_t dial_at_ms;                  // 0: nothing is planned
    uint64_t serving_since_ms, lost_at_ms;
};

// Called by OpenSSL when a ticket has come.
int swarm_link_on_tls_session(SSL *ssl, SSL_SESSION *session);

void swarm_agent_init(struct swarm_agent *agent, struct swarm *swarm);
void swarm_agent_start(struct swarm_agent *agent, uint64_t spread_ms);
void swarm_agent_stop(struct swarm_agent *agent);
void swarm_agent_stall(struct swarm_agent *agent);  // its tunnel stays open and silent; it does not dial
void swarm_agent_redial(struct swarm_agent *agent); // another tunnel beside the one there is, of a new boot
void swarm_agent_tick(struct swarm_agent *agent, uint64_t now_ms);
void swarm_agent_on_hello(struct swarm_agent *agent, struct swarm_link *link, uint64_t epoch);
void swarm_agent_on_drain(struct swarm_agent *agent, struct swarm_link *link, uint64_t spread_ms);
void swarm_agent_on_superseded(struct swarm_agent *agent, struct swarm_link *link);
void swarm_agent_on_end(struct swarm_agent *agent, struct swarm_link *link, const struct swarm_end *end);

// ---- all of them
// -----------------------------------------------------------------------------------------------------

struct swarm {
    int epoll;
    SSL_CTX *tls;
    struct sockaddr_in platform;
    char host[300], name[256]; // Host, and the name in the certificate
    unsigned first_source, source_count, next_source;
    uint64_t report_every_ms; // 0: only the snapshot
    struct swarm_agent *agents;
    size_t agent_count;
    struct swarm_link *links, *ended;
    size_t link_count;
    struct nghttp2_hd_inflater *inflater; // of all links: without a dynamic table there is no state
    struct ws_frame_masks masks;
    uint8_t buffer[64 * 1024];

    uint64_t counts[SWARM_COUNTS];
    size_t serving; // agents with a tunnel that carries calls
    uint64_t mark_ms, first_acked_ms, last_acked_ms;
    uint32_t *waits_ms; // from losing a tunnel (or the start) to the next HELLO_ACK, since the mark
    size_t wait_count, wait_cap;
};

void swarm_count(struct swarm *swarm, enum swarm_count what);
void swarm_note_acked(struct swarm *swarm, uint64_t waited_ms);

#endif
