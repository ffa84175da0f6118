// parse: checked conversions from outside text to values. Pure; any thread.
// Each takes the whole string: leading or trailing bytes, signs where none belong, and overflow are ERROR_INVALID.
#ifndef CULVERT_BASE_PARSE_H
#define CULVERT_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

MUST_CHECK enum error_code parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out, struct error *err);
MUST_CHECK enum error_code parse_i64(struct str s, int64_t min, int64_t max, int64_t *out, struct error *err);
// true/false, yes/no, on/off, 1/0
MUST_CHECK enum error_code parse_bool(struct str s, bool *out, struct error *err);
// "512", "64KiB", "1MiB", "2GiB" (also kB MB GB as powers of ten) -> bytes
MUST_CHECK enum error_code parse_bytes(struct str s, uint64_t *out, struct error *err);
// "250ms", "5s", "2m", "1h", "7d" -> milliseconds; a bare number is refused (which unit?)
MUST_CHECK enum error_code parse_duration_ms(struct str s, uint64_t *out, struct error *err);
// "host:port", "[v6]:port", ":port" -> host (view into s, without brackets, may be empty) and port
MUST_CHECK enum error_code parse_address(struct str s, struct str *out_host, uint16_t *out_port, struct error *err);
// "localhost" or an address of the loopback (127.0.0.0/8, ::1), nothing that only looks like one.
bool parse_is_loopback(struct str host);

// Hex: out has len/2 bytes. Base64: standard alphabet, padding required; out_cap >= 3/4 of len.
MUST_CHECK enum error_code parse_hex(struct str s, uint8_t *out, size_t out_len, struct error *err);
MUST_CHECK enum error_code parse_base64(struct str s, uint8_t *out, size_t out_cap, size_t *out_len, struct error *err);
MUST_CHECK enum error_code parse_base64url(struct str s, uint8_t *out, size_t out_cap, size_t *out_len,
                                           struct error *err); // RFC 4648 section 5, no padding

// Writers: text needs 2*len+1, (len+2)/3*4+1 bytes; NUL-terminated. Return the text's length.
size_t format_hex(const uint8_t *at, size_t len, char *out);
size_t format_base64(const uint8_t *at, size_t len, char *out);
size_t format_base64url(const uint8_t *at, size_t len, char *out);

#endif
