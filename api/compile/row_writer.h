// row_writer: the answer's text from the rows of a plan, by its program: columns go from libpq's
// memory into the buffer, escaped; JSON inside a column is projected by its selection. Pure.
#ifndef CULVERT_API_COMPILE_ROW_WRITER_H
#define CULVERT_API_COMPILE_ROW_WRITER_H

#include "api/compile/plan.h"

struct row_page {
    const struct plan *plan;
    const struct shape *shape; // of this request, with the plan's key
    const struct pg_rows *rows;
    size_t count;   // without the row that shows that there are more
    bool is_turned; // the first one of the page is the last of the rows
    bool has_next, has_prev;
    size_t first_row; // what is written outside of a list
};

// Appends the value. False: a null that may not be went up to the root, or a column could not be
// read; problems say so, and `out` is as before.
bool row_writer_write(const struct row_page *page, struct strbuf *out);

#endif
