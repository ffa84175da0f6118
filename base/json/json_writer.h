// json_writer: compact JSON text of a value, byte by byte what jansson writes with JSON_COMPACT
// and, when sorted, JSON_SORT_KEYS, several times as fast. For json.c. Pure; any thread.
#ifndef CULVERT_BASE_JSON_JSON_WRITER_H
#define CULVERT_BASE_JSON_JSON_WRITER_H

#include <jansson.h>

#include "base/strbuf.h"

// Appends it. Values are no deeper than json_decode let them be (recursion).
void json_writer_write(struct strbuf *out, const json_t *value, bool sorted);

// Appends a string with its quotes, as the function above writes it; text is UTF-8.
void json_writer_write_text(struct strbuf *out, struct str text);

#endif
