// row: reads members of a row of an answer by a path ("metadata.name"). Pure; any thread.
#ifndef CULVERT_CLI_ROW_H
#define CULVERT_CLI_ROW_H

#include <jansson.h>

#include "base/strbuf.h"
#include "cli/noun.h"

// Borrowed; NULL: not there or null.
const json_t *row_at(const json_t *row, const char *path);
// The text of a string; NULL: no string is there. path may be NULL.
const char *row_text(const json_t *row, const char *path);

// The cell of a column: "<none>" where there is no value, lists joined by commas, objects by count.
// Control characters become "?", so that names of objects cannot drive the terminal.
void row_cell(const json_t *row, const char *path, enum column_kind kind, int64_t now_ms, struct strbuf *out);
// A value as one line of text, as in a cell.
void row_write(const json_t *value, struct strbuf *out);
// Appends text without control characters (C0, DEL, C1); line feeds stay where is_block.
void row_write_safe(struct str text, bool is_block, struct strbuf *out);

// "[RUNTIME/][NAMESPACE/]NAME" as far as the noun has these.
void row_reference(const struct noun *noun, const json_t *row, struct strbuf *out);

#endif
