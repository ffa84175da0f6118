// log_query: which logs a request asks for: the query of /app-proxy/api/applications/logs. Bytes
// of outside: every value is checked here, and nothing of it can lead to another path of the
// Kubernetes API. A value; any thread.
#ifndef CULVERT_AGENT_LOG_QUERY_H
#define CULVERT_AGENT_LOG_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { LOG_NAME_BYTES = 254, LOG_CONTAINERS_MAX = 16, LOG_TIME_BYTES = 40 };

// A kind whose pods can be found.
struct log_kind {
    const char *name, *group;
    const char *path;   // of its API group and version
    const char *plural; // in paths
};

struct log_query {
    const struct log_kind *kind;
    char ns[LOG_NAME_BYTES], name[LOG_NAME_BYTES];
    char containers[LOG_CONTAINERS_MAX][LOG_NAME_BYTES]; // these alone; none: all
    size_t container_count;
    bool follow, previous, timestamps;
    int64_t since_seconds, tail_lines, limit_bytes; // -1: not given
    char since_time[LOG_TIME_BYTES];                // empty: not given
};

// text: what follows "?". ERROR_INVALID names the parameter and what is accepted.
MUST_CHECK enum error_code log_query_parse(struct str text, struct log_query *out, struct error *err);
const struct log_kind *log_kind_find(struct str group, struct str name); // NULL: not one of them
bool log_query_wants(const struct log_query *query, struct str container);
// Whether a name of the API can be a segment of a path.
bool log_name_ok(struct str name);
// The path of one container's log. since: NULL: from where the query has it; else from that time on,
// empty: all.
void log_query_add_path(const struct log_query *query, struct str ns, struct str pod, struct str container,
                        const char *since, struct strbuf *out);

#endif
