// read_cursor: the cursor of a row in a list: its order's name and the keys of the order, each
// ending with a NUL, as base64url; storage/sql/store_call.h reads it. Pure.
#ifndef CULVERT_API_COMPILE_READ_CURSOR_H
#define CULVERT_API_COMPILE_READ_CURSOR_H

#include "base/strbuf.h"
#include "storage/pg/pg.h"

// Appends it without quotes; the keys are the columns from first_key on.
void read_cursor_write(struct strbuf *out, const char *order_name, const struct pg_rows *rows, int row, int first_key,
                       size_t key_count);

#endif
