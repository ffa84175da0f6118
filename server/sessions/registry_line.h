// registry_line: the lines about tunnels that replicas leave and send in Redis
// (server/sessions/registry.h has their form). Pure. Bytes from Redis are outside bytes: what is
// not exactly of the form is no line.
#ifndef CULVERT_SERVER_REGISTRY_LINE_H
#define CULVERT_SERVER_REGISTRY_LINE_H

#include "base/purpose_key.h"
#include "base/runtime_key.h"
#include "server/sessions/registry_table.h"

enum { REGISTRY_LINE_BYTES = 896, REGISTRY_SIGNED_BYTES = REGISTRY_LINE_BYTES + 96 };

enum registry_line_kind { REGISTRY_LINE_OPEN, REGISTRY_LINE_OVER };

struct registry_line {
    enum registry_line_kind kind;
    struct str account_id, runtime; // views
    struct registry_place place;    // OVER: its epoch alone
};

bool registry_line_parse(struct str message, struct registry_line *out);
bool registry_line_parse_place(struct str value, struct registry_place *out);
// Writers; out has REGISTRY_LINE_BYTES.
struct str registry_line_key(const struct runtime_key *key, char *out);
struct str registry_line_place(const struct registry_place *place, char *out);
struct str registry_line_open(const struct runtime_key *key, const struct registry_place *place, char *out);
struct str registry_line_over(const struct runtime_key *key, uint64_t epoch, char *out);

// Signatures: "<line> <expires, ms, wall> <64 hex digits>", HMAC-SHA256 over place, expiry and
// line. place: the key or channel, so that a line counts where it was written alone. out has
// REGISTRY_SIGNED_BYTES.
struct str registry_line_sign(const struct purpose_key *key, struct str place, struct str line, int64_t expires_at_ms,
                              char *out);
// False: no replica of this deployment wrote it there, or it is over. *out_line is a view.
bool registry_line_verify(const struct purpose_key *key, struct str place, struct str text, int64_t now_ms,
                          struct str *out_line);

#endif
