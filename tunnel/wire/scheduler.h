// scheduler: which of the streams of one connection sends next, the same on both ends of a tunnel.
// Urgency classes of RFC 9218 section 4.1 (a lower number goes first), deficit round robin inside a
// class. Pure: no I/O, no clock of its own, no memory: items lie in their streams. One a
// connection, on its loop's thread. Every function is O(1).
//
// Rules, and what they promise:
// - A stream that has sent more than WIRE_SCHEDULER_BULK_BYTES without a pause is WIRE_URGENCY_BULK, whatever it was
//   given, until it has had nothing to send for WIRE_SCHEDULER_IDLE_US. Given urgency 0 stays 0.
// - Inside a class no stream that always wants to send gets ahead of another one by more than
//   WIRE_SCHEDULER_QUANTUM_BYTES and one allowance.
// - A class goes before the higher numbers, but none starves: one that waits is owed a tenth of all that is sent
//   meanwhile, and is served out of turn as soon as a quantum is due.
//
// Coupling with nghttp2, which orders DATA by rules of its own (1.52 schedules by stream id and RFC
// 7540 weights): its data providers return NGHTTP2_ERR_DEFERRED unless their stream holds an
// allowance, so that only the stream picked here is ever in nghttp2's queue. On a turn the owner
// does
//
//     loop:  take everything nghttp2_session_mem_send() gives    (PING, HEADERS, SETTINGS: they never wait for DATA)
//            item = wire_scheduler_next(&scheduler, now_us, &allowance), or stop
//            stream->allowance = allowance; nghttp2_session_resume_data(h2, stream->id);
//            take what nghttp2_session_mem_send() gives: the provider hands out at most `allowance` bytes, clears it
//            and calls wire_scheduler_sent(); asked again without an allowance it returns DEFERRED
//            still holding the allowance?  HTTP/2's credit is used up: clear it, wire_scheduler_block()
//
// and stops as soon as the transport's budget (64 KiB) is used. A provider that is asked without an
// allowance (its HEADERS have left, or a WINDOW_UPDATE came: nghttp2 asks by itself then) calls
// wire_scheduler_ready() if it has bytes or an end to send; so does a caller that adds bytes to a
// stream. wire_scheduler_idle() when its queue has run empty; wire_scheduler_remove() before its
// memory goes.
#ifndef CULVERT_TUNNEL_WIRE_SCHEDULER_H
#define CULVERT_TUNNEL_WIRE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_urgency {
    WIRE_URGENCY_CONTROL = 0,     // acknowledgements of reports, and what else keeps a tunnel going
    WIRE_URGENCY_INTERACTIVE = 1, // CONNECT, event streams, answers to GET and HEAD while they are small
    WIRE_URGENCY_DEFAULT = 3,
    WIRE_URGENCY_BULK = 6,
    WIRE_URGENCIES = 8,
};

enum {
    WIRE_SCHEDULER_QUANTUM_BYTES = 16 * 1024,
    WIRE_SCHEDULER_BULK_BYTES = 1024 * 1024,
    WIRE_SCHEDULER_IDLE_US = 200 * 1000,
    WIRE_SCHEDULER_SHARE = 10, // a class that waits gets one byte of so many
};

// One a stream, in its memory; zeroed is not ready: wire_scheduler_item_init().
struct wire_scheduler_item {
    struct wire_scheduler_item *next;
    struct wire_scheduler_item **link; // what points to this item; NULL: it does not wait
    uint8_t urgency;                   // as given
    uint8_t class;                     // as it counts now
    bool idle;                         // has nothing to send since idle_at_us
    uint32_t deficit;                  // left of its quantum before its class goes on to the next one; 0: a new one
    uint64_t sent_bytes;               // since it was last idle for long
    uint64_t idle_at_us;
    uint64_t ready_at_us; // waits since: when it became ready or was served last
};

struct wire_scheduler {
    struct wire_scheduler_class {
        struct wire_scheduler_item *first, **last;
        uint64_t owed_bytes; // sent by others while it waited, less SHARE - 1 times what it got
    } classes[WIRE_URGENCIES];
    unsigned waiting; // items
};

void wire_scheduler_init(struct wire_scheduler *scheduler); // lives at one place: items point into it
void wire_scheduler_item_init(struct wire_scheduler_item *item, enum wire_urgency urgency, uint64_t now_us);
// Another urgency from now on (an answer's head shows that it is an event stream).
void wire_scheduler_set_urgency(struct wire_scheduler *scheduler, struct wire_scheduler_item *item,
                                enum wire_urgency urgency);

// It has something to send. One that waits already stays where it is.
void wire_scheduler_ready(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, uint64_t now_us);
// It has nothing to send any more; its pause begins.
void wire_scheduler_idle(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, uint64_t now_us);
// It has something to send and must not (no credit): not a pause. ready() puts it back.
void wire_scheduler_block(struct wire_scheduler *scheduler, struct wire_scheduler_item *item);
// It goes. Also for one that does not wait.
void wire_scheduler_remove(struct wire_scheduler *scheduler, struct wire_scheduler_item *item);

// Who is next, and how many bytes it may send now (1 to a quantum). NULL: no stream waits. Changes
// nothing: until sent(), idle(), block() or remove() the answer is the same.
struct wire_scheduler_item *wire_scheduler_next(struct wire_scheduler *scheduler, size_t *out_allowance);
// The one that is next sent so many bytes of content (0: only its end). It goes on waiting; call
// idle() if it is done.
void wire_scheduler_sent(struct wire_scheduler *scheduler, struct wire_scheduler_item *item, size_t len,
                         uint64_t now_us);

#endif
