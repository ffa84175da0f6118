// table: columns of text, as wide as their widest cell so far, three spaces apart. Rows are printed
// by blocks; later blocks keep the widths of earlier ones. One thread.
#ifndef CULVERT_CLI_PRINT_TABLE_H
#define CULVERT_CLI_PRINT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/strbuf.h"

enum { TABLE_COLUMNS_MAX = 32 };

struct table {
    size_t column_count;
    size_t widths[TABLE_COLUMNS_MAX]; // characters
    struct strbuf cells;              // each ends with NUL, row by row
    size_t cell_count;
};

void table_init(struct table *table, size_t column_count);
void table_finish(struct table *table);
void table_add(struct table *table, struct str cell);
// Prints the rows that are there, and forgets them. ERROR: stdout is checked at exit.
void table_print(struct table *table, FILE *out);

#endif
