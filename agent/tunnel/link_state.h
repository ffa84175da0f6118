// link_state: what link.c (the open pipe) and link_open.c (how it opens) share, the inside of
// link.h. Included nowhere else.
#ifndef CULVERT_AGENT_LINK_STATE_H
#define CULVERT_AGENT_LINK_STATE_H

#include "agent/tunnel/dialer.h"
#include "agent/tunnel/life.h"
#include "agent/tunnel/link.h"
#include "base/strbuf.h"
#include "tunnel/wire/proof.h"
#include "tunnel/wire/ws_frame.h"
#include "tunnel/wire/ws_handshake.h"

enum {
    READ_BYTES = 64 * 1024, // of plain text, put together from records before it is looked at
    WIRE_READ_BYTES = 128 * 1024,
    READS_A_TURN = 2, // of WIRE_READ_BYTES: other sockets have their turn, too
    HEAD_BYTES_MAX = 16 * 1024,
    NOTSENT_BYTES = 64 * 1024, // what the kernel may hold unsent: the rest waits where it can still be reordered
    CONTROL_BYTES_MAX = 3 * (WS_FRAME_CONTROL_BYTES_MAX + 6),
    OUT_BYTES = CONTROL_BYTES_MAX + WS_FRAME_HEADER_BYTES_MAX + AGENT_LINK_FILL_BYTES,
    HANDLES = 4,
};

enum link_phase { PHASE_DIAL, PHASE_PROXY, PHASE_TLS, PHASE_UPGRADE, PHASE_OPEN, PHASE_ENDED };

struct agent_link {
    uv_loop_t *loop;
    struct agent_link_events events;
    void *arg;
    enum link_phase phase;
    struct agent_dialer *dialer;
    int fd;
    struct tls_connection tls;
    struct byte_queue wire_out; // TLS records that wait for the socket
    uint8_t *wire_in;           // WIRE_READ_BYTES, from the first read on
    unsigned reads_left;        // how often the socket may be read now
    int read_errno;             // why reading it failed, or 0
    uv_poll_t poll;
    int poll_events;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t timer; // opening, then liveness
    unsigned handles; // open
    unsigned depth;   // inside our own functions: memory stays
    bool has_poll, dirty;
    bool muted; // closed by the owner: no event any more

    bool through_proxy;
    char key[WS_HANDSHAKE_KEY_BYTES];
    struct strbuf request; // proxy's CONNECT, then the upgrade
    struct strbuf upgrade; // until it is its turn
    size_t request_sent;   // to the proxy
    struct strbuf answer;
    struct token_proof {
        char token[TOKEN_TEXT_BYTES];      // until it was sent
        char enrollment[TOKEN_TEXT_BYTES]; // likewise; empty: none
        uint8_t key[ID_SHA256_BYTES];
        uint8_t binding[WIRE_BINDING_BYTES];
        bool is_wanted;
    } proof;

    struct ws_frame_decoder decoder;
    struct ws_frame_masks masks;
    uint8_t control[CONTROL_BYTES_MAX]; // control frames that wait
    size_t control_len;
    uint8_t *out; // where one message is laid out
    uint8_t in[READ_BYTES];

    struct agent_life life;
    uint64_t sent_bytes, ping_at_us;
    bool ping_waits;
};

// ---- link.c
void agent_link_free(struct agent_link *link);
void agent_link_maybe_free(struct agent_link *link); // when it has ended and nothing of it runs
void agent_link_finish(struct agent_link *link, const struct agent_link_end *why);
void agent_link_end_error(struct agent_link *link, const struct error *err);
void agent_link_want(struct agent_link *link, int events); // of the poll
bool agent_link_flush(struct agent_link *link);            // what TLS wrote; false: the socket is full, or it failed
// Reads the socket for TLS. False: nothing is there now, or the turn has read its share.
bool agent_link_fill(struct agent_link *link);
void agent_link_tls_stopped(struct agent_link *link, enum tls_result result);
void agent_link_read(struct agent_link *link);
void agent_link_decode(struct agent_link *link, uint8_t *at, size_t len);
void agent_link_opened(struct agent_link *link);
void agent_link_on_poll(uv_poll_t *poll, int status, int events);
void agent_link_on_prepare(uv_prepare_t *prepare);
void agent_link_on_check(uv_check_t *check);

// ---- link_open.c
void agent_link_open_step(struct agent_link *link);                          // the socket is ready, before PHASE_OPEN
void agent_link_on_answer(struct agent_link *link, uint8_t *at, size_t len); // bytes of the upgrade's answer

#endif
