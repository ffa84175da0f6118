// handshake: the names that both ends of a tunnel agree on. Constants only. Source: the transport
// section of docs/ARCHITECTURE.md.
#ifndef CULVERT_TUNNEL_WIRE_HANDSHAKE_H
#define CULVERT_TUNNEL_WIRE_HANDSHAKE_H

#define WIRE_TUNNEL_PATH        "/tunnel/v1"
#define WIRE_TUNNEL_SUBPROTOCOL "culvert.tunnel.1"
// Request headers of the upgrade: `authorization: Culvert <sealed runtime token>`
// (tunnel/wire/proof.h), or `Bearer <runtime token>`, and
#define WIRE_HEADER_INSTANCE_ID   "culvert-instance-id" // stable per pod
#define WIRE_HEADER_BOOT_ID       "culvert-boot-id"     // UUIDv7, new with every start of the agent
#define WIRE_HEADER_AGENT_VERSION "culvert-agent-version"
#define WIRE_HEADER_RUNTIME       "culvert-runtime" // the name the agent believes in: must equal the token's
// What the agent understands beyond the first version of the protocol, a comma-separated list. The
// platform announces in HELLO_ACK (wire_control.capabilities) what of it it does.
#define WIRE_HEADER_FEATURES        "culvert-features"
#define WIRE_FEATURE_BOUND_IDENTITY "bound-identity" // tunnel/wire/identity.h
#define WIRE_FEATURE_OPERATIONS     "operations"     // tunnel/wire/control.h
// Of an agent whose runtime may have to be created: the enrollment token, sealed if the runtime
// token is, and the SHA-256 of the runtime token's secret in hex, which is then covered
// (tunnel/wire/proof.h). A platform that knows the runtime token does not look at them.
#define WIRE_HEADER_ENROLLMENT      "culvert-enrollment"
#define WIRE_HEADER_ENROLLMENT_HASH "culvert-enrollment-hash"
// Answer of the upgrade: that the platform knows the token (tunnel/wire/proof.h).
#define WIRE_HEADER_PROOF "culvert-proof"
// Inside streams
#define WIRE_HEADER_IDENTITY "culvert-identity"
#define WIRE_HEADER_CAUSE    "culvert-cause" // agent -> platform with 403/404/502/504 it made itself
// Agent -> platform: a service answered the request to switch to WebSocket with an ordinary
// success. Beside a :status of 2xx that would be an accepted extended CONNECT (RFC 9110 section
// 9.3.6), whose bytes are not framed; so :status is WIRE_STATUS_DECLINED, this is the answer of the
// service, and its headers and body follow.
#define WIRE_HEADER_STATUS   "culvert-status"
#define WIRE_STATUS_DECLINED 502
// Platform -> agent with the reports stream: which exchange of digests (tunnel/wire/digest.h) it
// understands. Without it the agent sends snapshots.
#define WIRE_HEADER_DIGEST  "culvert-report-digest"
#define WIRE_DIGEST_VERSION "1"
// Of the same request: the platform takes the details of report records (tunnel/wire/report.h), and
// they count in the entries of its digest tree. Without it an agent leaves them out.
#define WIRE_HEADER_DETAILS  "culvert-report-details"
#define WIRE_DETAILS_VERSION "1"
// Of the same request: the platform takes Kubernetes Events (tunnel/wire/report.h). Without it an
// agent sends none.
#define WIRE_HEADER_KUBERNETES_EVENTS  "culvert-report-kubernetes-events"
#define WIRE_KUBERNETES_EVENTS_VERSION "1"
#define WIRE_REPORTS_PATH              "/culvert/reports" // POST with :authority "culvert"

#endif
