// redaction_value: the types of values in the table of open paths. A value that does not look like
// its type does not leave. Pure; any thread.
#ifndef CULVERT_WIRE_REDACTION_VALUE_H
#define CULVERT_WIRE_REDACTION_VALUE_H

#include <stdbool.h>

#include "base/str.h"
#include "base/strbuf.h"

enum redaction_type {
    REDACTION_CLOSED,     // no value leaves, but what lies below may have a type
    REDACTION_DEEP,       // the same, for what is not known to be small: may become one digest as a whole
    REDACTION_DROP,       // neither it nor what lies below leaves a trace
    REDACTION_OPEN,       // leaves with all that lies below, scrubbed
    REDACTION_NAME,       // of an object, a field, a host, an address: up to 253 bytes without white space
    REDACTION_LABEL,      // value of a label: up to 63 bytes
    REDACTION_ENUM,       // a word that a program chose: phases, reasons, options
    REDACTION_NUMBER,     // a JSON number
    REDACTION_QUANTITY,   // a JSON number, or 10, 25%, 128Mi
    REDACTION_MEASURE,    // numbers, also several in brackets
    REDACTION_BOOL,       //
    REDACTION_TIME,       // RFC 3339
    REDACTION_DURATION,   // a JSON number, or 1h30m
    REDACTION_PORT,       // a JSON number, or the name of a port
    REDACTION_IMAGE,      // a reference of a container image
    REDACTION_FULL_IMAGE, // the same, with a path, tag or digest: in kinds that are not known
    REDACTION_PATH,       // of a file or URL, without a query
    REDACTION_PATTERN,    // of paths, or an expression over names
    REDACTION_REVISION,   // commit, branch, tag, version or range of versions
    REDACTION_URL,        // without user, password and query; also the other forms of addresses of repositories
    REDACTION_TITLE,      // a text of one line, scrubbed, up to 253 bytes
    REDACTION_TEXT,       // a text, scrubbed, up to 4 KiB
    REDACTION_LONG_TEXT,  // a text, scrubbed, up to 64 KiB
    REDACTION_NODE_NAME,  // of a Workflow's node, without the items that it ran for
    REDACTION_TYPES,
};

enum { REDACTION_TEXT_BYTES_MAX = 4096, REDACTION_LONG_TEXT_BYTES_MAX = 64 * 1024 };

// The name of a type in the table; REDACTION_TYPES when no type has that name.
enum redaction_type redaction_type_named(struct str name);

// raw: a JSON scalar as it stands in its text. True: it leaves, as it is (*out_same), or as what is
// appended to out.
bool redaction_value_write(enum redaction_type type, struct str raw, struct strbuf *out, bool *out_same);

#endif
