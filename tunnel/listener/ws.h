// ws: the WebSocket end of a tunnel (RFC 6455): accepts a socket, does TLS, answers the upgrade,
// and is then a byte pipe of binary messages whose boundaries mean nothing. One tunnel_ws_server a
// node, one tunnel_ws a connection, all on the loop's thread. An idle connection is an SSL object
// and half a KiB; buffers belong to the server.
#ifndef CULVERT_TUNNEL_LISTENER_WS_H
#define CULVERT_TUNNEL_LISTENER_WS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/connection_limiter.h"
#include "base/error.h"
#include "tunnel/listener/upgrade.h"
#include "tunnel/wire/proof.h"

struct tunnel_ws_server;
struct tunnel_ws;

enum {
    TUNNEL_WS_WRITE_BYTES = 64 * 1024 - 10, // of one message: with its header four full records of TLS
    TUNNEL_WS_ROOM_BYTES = 16 * 1024,       // what an HTTP/2 frame may need
};

// The answer to an upgrade.
struct tunnel_ws_admission {
    void *user;                   // 101: goes with the connection
    char proof[WIRE_PROOF_BYTES]; // 101: that we know the agent's token, or empty
    unsigned retry_after_s;       // 503
};

struct tunnel_ws_options {
    const char *tls_certificate_file, *tls_key_file;
    unsigned connections_max; // established
    unsigned handshakes_max;  // accepted and not yet established
    struct connection_limiter
        *handshake_addresses; // of the process: how many of them each address has; NULL: no bound of its own
    void *ctx;
    // Decides before 101, at once: 101, or another status with *err. *out is zeroed.
    int (*on_upgrade)(void *ctx, const struct tunnel_upgrade *upgrade, struct tunnel_ws_admission *out,
                      struct error *err);
    // Inside the callback that decided 101; calls tunnel_ws_set_user().
    void (*on_open)(void *ctx, void *user, struct tunnel_ws *ws);
    // A handshake ended that on_upgrade was not asked about; `why` is a word for a metric: a status
    // or what failed.
    void (*on_handshake_failed)(void *ctx, const char *why);
    // The rest comes with what tunnel_ws_set_user() named. len 0: a sign of life that is no byte of
    // the pipe.
    void (*on_bytes)(void *user, const uint8_t *at, size_t len);
    // Fills at most cap bytes; 0: nothing to send, or nothing that fits. Called while the socket
    // takes more, and again until it gives 0 or less than TUNNEL_WS_ROOM_BYTES are left: all of
    // that is one message and one write.
    size_t (*on_writable)(void *user, uint8_t *out, size_t cap);
    void (*on_closed)(void *user); // the last one; ws is dead afterwards
    void (*on_room)(void *ctx);    // a connection went: there may be room again
};

MUST_CHECK enum error_code tunnel_ws_server_create(uv_loop_t *loop, const struct tunnel_ws_options *options,
                                                   struct tunnel_ws_server **out, struct error *err);
// Closes every connection, without waiting for anybody; on_closed of each and then on_done come in
// later turns.
void tunnel_ws_server_destroy(struct tunnel_ws_server *server, void (*on_done)(void *arg), void *arg);
// Connections keep what they began with; on error nothing changes.
MUST_CHECK enum error_code tunnel_ws_server_reload_tls(struct tunnel_ws_server *server, struct error *err);
bool tunnel_ws_server_has_room(const struct tunnel_ws_server *server);
void tunnel_ws_server_adopt(struct tunnel_ws_server *server, int fd, const char *remote); // owns fd

void tunnel_ws_set_user(struct tunnel_ws *ws, void *user);
const char *tunnel_ws_remote(const struct tunnel_ws *ws);
// Asks for on_writable; cheap to repeat. Never calls back from inside.
void tunnel_ws_want_write(struct tunnel_ws *ws);
// From now on what waits to be sent leaves before anything is read. For peers that are about to
// announce that nothing more may be begun: what had been begun by then would else be refused.
void tunnel_ws_speak_first(struct tunnel_ws *ws);
// Sends what on_writable still gives, then a Close frame with the status (RFC 6455 section 7.4.1)
// and waits a little for the peer's. now: the transport is given up without a word. on_closed
// follows in a later turn either way.
void tunnel_ws_close(struct tunnel_ws *ws, uint16_t status, bool now);
void tunnel_ws_fetch(const struct tunnel_ws *ws); // into the cache: an idle one is in none, and will be looked at
// True: the peer sends keepalives, and receives them. *out_said_ms: when it was last sent anything.
MUST_CHECK bool tunnel_ws_says_words(const struct tunnel_ws *ws, uint64_t *out_said_ms);
// Sends such a keepalive, at once, unless more waits to leave.
void tunnel_ws_say_word(struct tunnel_ws *ws);
// Reads what lies in the kernel. Calls back as the loop would, from inside.
void tunnel_ws_hear_words(struct tunnel_ws *ws);
// Milliseconds since the peer's last byte. A word of life that stands alone, an empty Pong (RFC
// 6455 section 5.5.3), is left in the kernel until more comes: on_bytes does not report it in time,
// this does; and from then on one more may join those that lie there. False: the kernel does not
// know.
MUST_CHECK bool tunnel_ws_silent_ms(struct tunnel_ws *ws, uint64_t *out_ms);

#endif
