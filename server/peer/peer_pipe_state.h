// peer_pipe_state: what the files of the hop's connection share: peer_pipe.c has the connection, peer_frames.c what
// nghttp2 tells, peer_stream.c the streams. Private to them.
#ifndef CULVERT_SERVER_PEER_PIPE_STATE_H
#define CULVERT_SERVER_PEER_PIPE_STATE_H

#include <nghttp2/nghttp2.h>

#include "base/loop/byte_queue.h"
#include "server/peer/peer_pipe.h"
#include "server/peer/peer_stream.h"
#include "tunnel/session/header_intake.h"

struct peer_pipe {
    struct peer_pool *pool;
    struct tls_stream *tls; // NULL until it is connected
    nghttp2_session *h2;
    struct peer_pipe_events events;
    void *arg;
    struct turn_item turn;
    struct peer_stream *streams;
    unsigned stream_count;
    struct header_intake *head;            // a header block on its way in
    uint64_t received_at_ms, pinged_at_ms; // the latter 0: no answer is due
    uint64_t growth_bytes;
    uint64_t shut_at_ms; // listener: our end of the connection is closed, the peer's is awaited
    bool is_listener, open, retired, ended;
    char broken[128];
};

struct peer_stream {
    struct peer_pipe *pipe;
    struct peer_stream *next, **link;
    int32_t id;
    const struct peer_stream_events *events; // NULL: reset, waits for nghttp2 to let go
    void *arg;
    struct byte_queue queue;
    struct header_block trailers; // go after the last byte
    bool ended, deferred, local_ended, remote_ended, sent;
    bool has_halves; // each ends on its own
    bool breaking;   // reset with break_code once all that was written has left
    uint32_t break_code;
    size_t taken; // told at the end of the turn
    struct turn_item turn;
    uint32_t window;
    uint64_t unconsumed, round_bytes;
    bool lagged;
};

// Writes at the end of the turn, and ends the pipe then if that is due.
void peer_pipe_wake(struct peer_pipe *pipe);

// The nghttp2 session of a pipe, its SETTINGS submitted.
nghttp2_session *peer_frames_create(struct peer_pipe *pipe, unsigned streams_max);

// id 0: not known yet.
struct peer_stream *peer_stream_create(struct peer_pipe *pipe, int32_t id);
// Tells its consumer, if there is one, and frees it.
void peer_stream_close(struct peer_stream *stream, uint32_t code, bool processed);
// Bytes have come: they are its consumer's until he gives them back.
void peer_stream_take_data(struct peer_stream *stream, const uint8_t *at, size_t len);

#endif
