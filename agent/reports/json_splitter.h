// json_splitter: cuts a stream of JSON into the objects inside it, without building anything, so that a list of a
// million objects costs the memory of its largest one. Two shapes: values one after the other (a watch: a JSON event
// a line) and one object whose member "items" is an array (a list). Pure, fuzzed; one owner, one thread. It does not
// check that a piece is JSON: whoever decodes the piece does.
#ifndef CULVERT_AGENT_JSON_SPLITTER_H
#define CULVERT_AGENT_JSON_SPLITTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

enum json_splitter_shape { JSON_SPLITTER_SEQUENCE, JSON_SPLITTER_LIST };

enum { JSON_SPLITTER_OBJECT_BYTES_MAX = 10 * 1024 * 1024, JSON_SPLITTER_ENVELOPE_BYTES_MAX = 64 * 1024 };

struct json_splitter {
    enum json_splitter_shape shape;
    struct strbuf object;   // the piece that is being read
    struct strbuf envelope; // list: all but the items, "items" being []
    struct strbuf word;     // list: the last string at depth 1, to know the member "items"
    size_t depth;           // of brackets open
    bool in_string, escaped;
    bool in_items;    // list: between the brackets of items
    bool skipping;    // the piece passed the limit: its rest is dropped
    bool ended;       // list: the outer object is complete
    uint64_t skipped; // pieces that were dropped
    void *arg;
    // A complete piece, valid during the call. False: stop reading.
    bool (*on_object)(void *arg, struct str text);
};

void json_splitter_init(struct json_splitter *splitter, enum json_splitter_shape shape,
                        bool (*on_object)(void *arg, struct str text), void *arg);
void json_splitter_finish(struct json_splitter *splitter);
// ERROR_INVALID: no such shape; ERROR_TOO_LARGE: the list's envelope; ERROR_CANCELLED: on_object said stop.
MUST_CHECK enum error_code json_splitter_feed(struct json_splitter *splitter, const char *at, size_t len,
                                              struct error *err);
// List: the outer object once it is complete (ended), without its items.
struct str json_splitter_envelope(const struct json_splitter *splitter);

#endif
