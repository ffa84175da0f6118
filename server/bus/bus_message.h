// bus_message: reports as they travel through a broker: binary, versioned, several in one message
// when they are of one runtime and session. Pure codec, bytes in, bytes out; any thread. All
// numbers big-endian:
//
//   "CVB" | u8 version = 1 | u8 flags (1: the body is one zstd frame) | u32 bytes of the plain body | body
//   body    u8 source | u64 epoch | i64 received (ms, wall) | u16 count | str8 account | str8 runtime | count records
//   record  u32 bytes of what follows | u8 type | u64 sequence | i64 observed (ms, wall) | u64 count of a snapshot's
//   end
//           | 32 bytes SHA-256 of the plain manifest | fields, each u8 tag | u32 length | bytes
//
// A tag that is not known is skipped, so that an older replica can apply what a newer one published
// during an upgrade.
#ifndef CULVERT_SERVER_BUS_BUS_MESSAGE_H
#define CULVERT_SERVER_BUS_BUS_MESSAGE_H

#include "base/error.h"
#include "base/strbuf.h"
#include "storage/reports/report.h"

enum {
    BUS_MESSAGE_COUNT_MAX = 1024,
    BUS_MESSAGE_BYTES_MAX = 64 * 1024 * 1024,          // of the plain body
    BUS_MESSAGE_UNPACKED_BYTES_MAX = 32 * 1024 * 1024, // of packed manifests, together, unpacked
    BUS_MESSAGE_PLAIN_BYTES_MAX = 128 * 1024 * 1024,   // of the body and its manifests; more is not read
};

// A message being written. Records are of the account, runtime, epoch and source of the first.
struct bus_message_writer {
    struct strbuf body;
    size_t count;
    size_t unpacked_bytes; // what packed manifests will be for who reads it
    bool has_plain;        // manifests that are not packed: worth compressing
};

void bus_message_begin(struct bus_message_writer *writer, const struct report *first, int64_t received_at_ms);
// Whether one more can be added: who reads the message unpacks all of it at once.
bool bus_message_fits(const struct bus_message_writer *writer, const struct report *report);
// A packed manifest travels as it is, in place of the plain one. ERROR_TOO_LARGE: the message is as
// it was.
MUST_CHECK enum error_code bus_message_add(struct bus_message_writer *writer, const struct report *report,
                                           struct error *err);
// The message; the writer is empty afterwards, and ends here also when nothing was added.
void bus_message_end(struct bus_message_writer *writer, struct strbuf *out);
void bus_message_abandon(struct bus_message_writer *writer);

// A message that was read, manifests unpacked. The texts lie in it or in at..len, which must
// outlive it.
struct bus_message {
    struct report *reports;
    size_t count, unpacked_bytes;
    int64_t received_at_ms;
    struct arena *arena;
};

// ERROR_INVALID, ERROR_TOO_LARGE: not a message of ours, or damaged: nothing of it may be used.
MUST_CHECK enum error_code bus_message_open(struct bus_message *out, const void *at, size_t len, struct error *err);
void bus_message_close(struct bus_message *message);

#endif
