// ws_listener: what the parts of tunnel/listener/ws.h share: the server with the buffers of its
// loop, and the connection. The parts are ws_listener.c (server), ws_opening.c (up to 101 or a
// refusal) and ws.c (frames, from 101 to the end).
#ifndef CULVERT_TUNNEL_LISTENER_WS_LISTENER_H
#define CULVERT_TUNNEL_LISTENER_WS_LISTENER_H

#include "base/loop/listener.h"
#include "base/loop/turn.h"
#include "tunnel/listener/tls_pipe.h"
#include "tunnel/listener/ws.h"
#include "tunnel/wire/ws_frame.h"

enum {
    WS_HEAD_BYTES_MAX = 8192,
    WS_PLAIN_BYTES = 64 * 1024,  // decrypted at once
    WS_CONTROL_BYTES_MAX = 4096, // answers to pings that wait for the socket
};

enum ws_state {
    WS_TLS,     // handshake
    WS_HEAD,    // reading the request
    WS_OPEN,    // 101 was sent
    WS_CLOSING, // our Close frame has left, the peer's is awaited
    WS_LINGER,  // nothing more is sent: what we sent may still be in flight, what comes is thrown away
    WS_DEAD,    // freed at the end of the turn
};

struct tunnel_ws_server {
    struct tunnel_ws_options options;
    uv_loop_t *loop;
    SSL_CTX *tls;
    uint64_t ticket_day;
    struct tls_pool pool;
    uint8_t *plain;   // WS_PLAIN_BYTES: decrypted, for one callback
    uint8_t *message; // room for a frame's header, then TUNNEL_WS_WRITE_BYTES
    struct turn turn;
    uv_timer_t timer;          // runs while `timed` is not empty
    struct tunnel_ws *timed;   // connections with a deadline
    struct tunnel_ws *settled; // and those without
    unsigned connections;      // whose descriptor is open
    unsigned handshakes;       // of them, those that have not come to 101
    unsigned handles_open;     // the connections' and the timer's
    bool destroyed;
    void (*on_done)(void *arg);
    void *arg;
};

struct tunnel_ws {
    // What the idle need comes first: nothing of ten thousand of them is in a cache.
    struct tunnel_ws_server *server;
    uint64_t said_ms; // when something was last encrypted and handed over
    enum ws_state state;
    int wake_at; // bytes in the kernel that make it readable, 0: any
    int polled;  // events that are asked for
    uint16_t close_status;
    bool says_words;        // the peer sends keepalives without being asked
    bool closing;           // tunnel_ws_close() was called
    bool handshaking;       // counted in server->handshakes and in the connection limiter
    bool writing;           // inside on_writable
    bool wants_room;        // on_writable goes on when the socket is writable
    bool speaks_first;      // what waits is written before anything is read
    bool shut_wanted, shut; // FIN when everything has left
    struct tls_pipe pipe;
    struct ws_frame_decoder decoder;
    void *user;
    struct turn_item turn_item;
    struct tunnel_ws *next, **link;
    uv_poll_t poll;
    struct strbuf head;        // the request, while it arrives
    struct byte_queue control; // answers to pings, not yet encrypted
    uint64_t deadline_ms;      // 0: none
    size_t unconfirmed;        // bytes since the kernel last reported room
    char remote[LISTENER_REMOTE_BYTES];
    char network[INET6_ADDRSTRLEN]; // whose handshake it is, while it is one
};

// ws_listener.c
void ws_set_deadline(struct tunnel_ws *ws, uint64_t after_ms); // 0: none
void ws_opened(struct tunnel_ws *ws);
void ws_end_handshake(
    struct tunnel_ws *ws); // it is no handshake any more: established, or closed. More than once is fine
void ws_unlink(struct tunnel_ws *ws);
void ws_on_handle_closed(uv_handle_t *handle); // of a connection

// ws_opening.c
void ws_opening_refuse(struct tunnel_ws *ws, int status, unsigned retry_after_s, const struct error *err);
// What arrived on the socket before the handshake was done. False: nothing more to do with it.
bool ws_opening_handshake(struct tunnel_ws *ws, const uint8_t *at, size_t len);
void ws_opening_take(struct tunnel_ws *ws, const uint8_t *at, size_t len); // decrypted bytes of the request
void ws_opening_expire(struct tunnel_ws *ws);
void ws_opening_fail(struct tunnel_ws *ws, const char *why); // no owner is left to be notified

// ws.c
void ws_watch(struct tunnel_ws *ws); // asks the loop for the events that the state wants
void ws_send_pending(struct tunnel_ws *ws);
void ws_linger(struct tunnel_ws *ws); // the last bytes are written: FIN behind them, then wait for the peer's
void ws_drop(struct tunnel_ws *ws);   // at once
void ws_on_turn(struct turn_item *item);

#endif
