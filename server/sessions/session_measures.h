// session_measures: what a replica writes to PostgreSQL about its sessions, for display: round
// trip, streams, bytes. A part of the sessions at a time, in turn, so that one statement stays
// small however many there are. A value owned by the owner of the lease; one thread.
#ifndef CULVERT_SERVER_SESSION_MEASURES_H
#define CULVERT_SERVER_SESSION_MEASURES_H

#include "base/strbuf.h"
#include "tunnel/broker.h"

enum { SESSION_MEASURES_MAX = 500, SESSION_MEASURES_BYTES_MAX = 256 * 1024 };

struct session_measures {
    size_t next; // where the next part begins: tunnel_broker_some_sessions()
};

// Writes the next part as JSON (the function tunnels_measured in migrations/0005); false: nothing
// to write.
bool session_measures_write(struct session_measures *measures, struct tunnel_broker *broker, struct strbuf *out);

#endif
