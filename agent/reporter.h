// reporter: what the cluster looks like, told to the platform. It watches the Kubernetes API, redacts, keeps one
// slot an object in its outbox and writes report records (tunnel/wire/report.h) onto the reports stream whenever
// one is open. Owned by the agent; lives on its loop; every function is called on that loop.
#ifndef CULVERT_AGENT_REPORTER_H
#define CULVERT_AGENT_REPORTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

struct agent_config;
struct agent_stream;
struct reporter;

// NULL with *err when the configuration cannot work (unreadable kubeconfig). config outlives the reporter.
struct reporter *reporter_create(struct loop *loop, const struct agent_config *config, struct error *err);
void reporter_destroy(struct reporter *reporter); // NULL is fine

// The platform opened `POST /culvert/reports`; the caller has answered its head with 200 already. Records go out as the
// response body with agent_stream_write(). The stream is valid until reporter_stream_closed(); an older stream that is
// still open is replaced by the newer one.
void reporter_stream_open(struct reporter *reporter, struct agent_stream *stream);
// Bytes of the request body: acknowledgements, cut anywhere. The caller gives the window back.
void reporter_on_ack_bytes(struct reporter *reporter, const uint8_t *at, size_t len);
// There is room again after agent_stream_write() returned false.
void reporter_stream_writable(struct reporter *reporter);
// The stream is gone; what was not acknowledged is sent again on the next one.
void reporter_stream_closed(struct reporter *reporter);

#endif
