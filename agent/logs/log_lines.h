// log_lines: cuts what the Kubernetes API sends of one container's log, with timestamps, into
// lines, and writes lines and notices in the form that the client asked for. A line that is longer
// than LOG_LINE_BYTES_MAX comes in pieces. Owned by one container's log; one thread.
#ifndef CULVERT_AGENT_LOG_LINES_H
#define CULVERT_AGENT_LOG_LINES_H

#include <stdbool.h>

#include "agent/logs/log_query.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { LOG_LINE_BYTES_MAX = 32 * 1024, LOG_TEXT_BYTES_MAX = 1024 * 1024 };

struct log_line {
    struct str time; // RFC 3339 with nanoseconds; empty: none
    struct str text; // any bytes without a line feed
    bool is_piece;   // the rest of the line follows
};

struct log_lines {
    struct strbuf pending; // of a line whose end has not come
    bool in_line;          // pieces of it have been given
    char time[LOG_TIME_BYTES];
};

void log_lines_init(struct log_lines *lines);
void log_lines_finish(struct log_lines *lines);
void log_lines_feed(struct log_lines *lines, const char *at, size_t len,
                    void (*on_line)(void *arg, const struct log_line *line), void *arg);
// The log has ended: what is pending is a line, too.
void log_lines_end(struct log_lines *lines, void (*on_line)(void *arg, const struct log_line *line), void *arg);

// It was broken off, and will be read again from the last line that was given: what is pending is
// dropped, unless pieces of the line were given.
void log_lines_break_off(struct log_lines *lines, void (*on_line)(void *arg, const struct log_line *line), void *arg);

// Of which container something is; empty: of none.
struct log_origin {
    struct str ns, pod, container;
};

struct log_form {
    bool is_json;    // application/x-ndjson: one JSON object a line; else text
    bool has_origin; // text: "[pod/NAME/CONTAINER] " in front
    bool has_time;   // text: the time in front
};

void log_form_line(const struct log_form *form, const struct log_origin *origin, const struct log_line *line,
                   struct strbuf *out);
// What is not a line of a log: why one is missing, the end. event: "notice", "heartbeat", "end".
// Text begins with "# ".
void log_form_event(const struct log_form *form, const struct log_origin *origin, const char *event, const char *code,
                    const char *message, struct strbuf *out);

#endif
