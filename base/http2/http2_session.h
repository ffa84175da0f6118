// http2_session: how a session of libnghttp2 is made (RFC 9113): callbacks, limits and settings in one
// place, so that each use lists its limits beside its callbacks. All sessions have in common that
// credit is the consumer's to give (no automatic WINDOW_UPDATE) and that running out of memory ends the
// process. On the loop of its owner.
#ifndef CULVERT_BASE_HTTP2_SESSION_H
#define CULVERT_BASE_HTTP2_SESSION_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// The extension frames that the unpack callback gets: every type that RFC 9113 does not define.
enum { HTTP2_EXTENSIONS_ALL = -1 };

struct http2_session_options {
    bool is_server;
    void (*set_callbacks)(nghttp2_session_callbacks *callbacks);
    void *arg; // of the callbacks
    // Limits on the peer; 0: libnghttp2's own.
    unsigned settings_max;                    // entries in one SETTINGS frame
    unsigned acks_max;                        // answers to PING and SETTINGS that it has not read
    unsigned continuations_max;               // CONTINUATION frames of one header block
    unsigned resets_burst, resets_per_second; // RST_STREAM, before the session ends
    size_t header_block_bytes_max;            // of what is sent
    bool stateless_hpack;                     // no dynamic table for what is sent
    bool no_pushes;                           // no reserved streams of the peer are kept
    bool forgets_closed;                      // no memory for streams that are over
    int extension;                            // type of one that is taken; 0: none; HTTP2_EXTENSIONS_ALL
    nghttp2_mem *memory;                      // NULL: the process's
    // What is announced, and the connection's window.
    const nghttp2_settings_entry *settings;
    size_t setting_count;
    int32_t window_bytes;
};

// Never NULL; nghttp2_session_del() ends it.
nghttp2_session *http2_session_create(const struct http2_session_options *options);
// A field as libnghttp2 takes it: views, which it copies when the field is submitted.
nghttp2_nv http2_field(struct str name, struct str value);

#endif
