// zstd_frame: what others compressed (agents' manifests, messages of the bus), unpacked under bounds that are checked
// before anything is unpacked: a frame states its size, and neither the size nor the frame is trusted. Pure; any
// thread.
#ifndef CULVERT_SERVER_INTAKE_ZSTD_FRAME_H
#define CULVERT_SERVER_INTAKE_ZSTD_FRAME_H

#include <stddef.h>
#include <zstd.h>

#include "base/error.h"
#include "base/str.h"

// How many bytes the frame states, if that is at most bytes_max and at most ratio_max times the frame's own bytes
// (below WIRE_REPORT_RATIO_FREE_BYTES the ratio does not count). ERROR_TOO_LARGE: more. ERROR_INVALID: not one whole
// frame with its size and nothing behind it.
MUST_CHECK enum error_code zstd_frame_size(struct str frame, size_t bytes_max, unsigned ratio_max, size_t *out_bytes,
                                           struct error *err);
// Unpacks it into `to`, which has the bytes that zstd_frame_size() gave. context NULL: one of its own. ERROR_INVALID:
// damaged, or it unpacks to another size than it states.
MUST_CHECK enum error_code zstd_frame_unpack(ZSTD_DCtx *context, struct str frame, char *to, size_t bytes,
                                             struct error *err);

#endif
