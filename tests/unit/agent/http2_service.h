// http2_service: a service that speaks HTTP/2 with prior knowledge, on a thread of its own, for
// tests: /echo gives the body back with trailers, /big sends for as long as it may, /hang says
// nothing, /reset breaks off, /info says 103 first, /refuse is reset before it begins.
#ifndef CULVERT_TESTS_AGENT_HTTP2_SERVICE_H
#define CULVERT_TESTS_AGENT_HTTP2_SERVICE_H

#include <stdatomic.h>
#include <stdint.h>

enum { HTTP2_SERVICE_BIG_BYTES = 8 * 1024 * 1024 };

struct http2_service;

struct http2_service_seen {
    atomic_uint connections, streams, cancels; // RST_STREAM(CANCEL) that came
    atomic_uint_fast64_t received, sent;       // bytes of bodies
    atomic_bool hold;                          // gives no window back
    atomic_bool trailer;                       // x-sum: 7 came behind a body
    atomic_bool te;                            // te: trailers came
};

struct http2_service *http2_service_start(void);
void http2_service_stop(struct http2_service *service);
uint16_t http2_service_port(const struct http2_service *service);
struct http2_service_seen *http2_service_seen(struct http2_service *service);

#endif
