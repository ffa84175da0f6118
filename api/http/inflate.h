// inflate: gzip bodies (RFC 1952) under a budget that is counted while inflating, so that a small
// body cannot become a big one. Pure; any thread.
#ifndef CULVERT_API_HTTP_INFLATE_H
#define CULVERT_API_HTTP_INFLATE_H

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum {
    INFLATE_BYTES_MAX = 10 * 1024 * 1024, // what the API allows a body to become
    INFLATE_RATIO_MAX = 100,
    INFLATE_FREE_BYTES = 64 * 1024, // up to here the ratio does not count: tiny bodies compress very well
};

// Appends what body unpacks to. body must be one whole member and nothing else: truncated data, a
// wrong checksum, a further member or any byte behind the end are ERROR_INVALID. ERROR_TOO_LARGE:
// more than bytes_max, more than ratio_max times the body (over INFLATE_FREE_BYTES), or more than
// out takes. Errors name the byte of the body; on an error out keeps what it held before.
MUST_CHECK enum error_code inflate_gzip(struct str body, size_t bytes_max, unsigned ratio_max, struct strbuf *out,
                                        struct error *err);

#endif
