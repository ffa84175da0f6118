// link: one connection to the platform: TCP (through an HTTP CONNECT proxy if there is one), TLS, WebSocket; a pipe of
// bytes for its owner. It answers pings, notices silence and measures the round trip. One loop.
//
// Writing is pulled: when the socket takes bytes the link asks on_fill for up to AGENT_LINK_FILL_BYTES, which go out
// as one WebSocket message and four TLS records. So nothing queues here, and the session decides as late as possible.
#ifndef CULVERT_AGENT_LINK_H
#define CULVERT_AGENT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/tunnel/tls.h"
#include "base/error.h"
#include "base/http1/http1.h"
#include "base/str.h"

struct agent_link;

enum {
    AGENT_LINK_FILL_BYTES = 65522,
    AGENT_LINK_OPEN_TIMEOUT_MS = 15000,
};

struct agent_link_target { // read during agent_link_start() only
    struct str host;
    uint16_t port;
    struct str proxy_host; // empty: direct
    uint16_t proxy_port;
    struct str proxy_credential; // "user:password" or empty
    struct str path;
    const struct http_header *headers; // of the upgrade
    size_t header_count;
    // The runtime token: it is said sealed, and the platform has to prove that it knows it (tunnel/wire/proof.h).
    // Empty: the credential is among the headers, and nothing is proved.
    struct str sealed_token;
    // An enrollment token that is sent sealed, with the hash of sealed_token. Empty: none.
    struct str sealed_enrollment;
};

struct agent_link_end {
    int status;             // HTTP status of a refused upgrade, else 0
    int64_t retry_after_ms; // with status; -1: not said
    struct error error;     // a sentence
};

struct agent_link_events {
    void (*on_open)(void *arg);
    // The memory lives for the call.
    void (*on_bytes)(void *arg, const uint8_t *at, size_t len);
    size_t (*on_fill)(void *arg, uint8_t *out, size_t cap);
    void (*on_rtt)(void *arg, uint64_t rtt_us);
    void (*on_end)(void *arg, const struct agent_link_end *end); // the link is dead and frees itself
};

// ERROR_INVALID when the target cannot be written into a request. Events come from the loop, never from here.
MUST_CHECK enum error_code agent_link_start(uv_loop_t *loop, struct agent_tls *tls,
                                            const struct agent_link_target *target,
                                            const struct agent_link_events *events, void *arg, struct agent_link **out,
                                            struct error *err);
void agent_link_wake(struct agent_link *link); // on_fill would give something: it is asked before the loop sleeps
// Sends what is due and CLOSE if the socket takes them now, and ends. No event follows; the pointer is dead. May be
// called inside any event.
void agent_link_close(struct agent_link *link, uint16_t code, struct str reason);

#endif
