// query: reads the rows of a noun page by page. Owned by one command; one thread.
#ifndef CULVERT_CLI_QUERY_H
#define CULVERT_CLI_QUERY_H

#include <jansson.h>

#include "base/strbuf.h"
#include "cli/client.h"
#include "cli/noun.h"

enum { QUERY_CHUNK_DEFAULT = 500, QUERY_CHUNK_MAX = 1000 };

struct query {
    const struct noun *noun;
    json_t *filters, *arguments; // objects; owned
    const char *selection;       // of a row
    size_t chunk;                // rows a request; 0: the default
    size_t limit;                // rows in all; 0: no limit
    char *cursor;
    json_int_t before; // of a noun with a window; 0: the newest
    size_t count;      // rows that were read
    bool is_over;
};

void query_init(struct query *query, const struct noun *noun, const char *selection);
void query_finish(struct query *query);

// Sets a filter or an argument that the noun declares: a list takes commas and is added to.
// ERROR_INVALID names the filters of the noun.
MUST_CHECK enum error_code query_filter(struct query *query, const char *option, const char *value, struct error *err);
// By the name alone, where the platform can find it so; else nothing changes.
void query_name(struct query *query, const char *name);

// The next rows: an array (a new reference), empty at the end.
MUST_CHECK enum error_code query_next(struct query *query, struct client *client, json_t **out_rows, struct error *err);
// The one row of a noun that is found by id; *out NULL: not found.
MUST_CHECK enum error_code query_by_id(struct query *query, struct client *client, const char *id, json_t **out,
                                       struct error *err);

// The document of the next page; what has no value is not mentioned.
void query_write_document(const struct query *query, struct strbuf *out);

#endif
