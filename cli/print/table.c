#include "cli/print/table.h"

#include <assert.h>
#include <string.h>

enum { CELLS_BYTES_MAX = 32 * 1024 * 1024, GAP = 3 };

void table_init(struct table *table, size_t column_count)
{
    assert(column_count > 0 && column_count <= TABLE_COLUMNS_MAX);
    *table = (struct table){.column_count = column_count};
    strbuf_init(&table->cells, CELLS_BYTES_MAX);
}

void table_finish(struct table *table)
{
    strbuf_finish(&table->cells);
}

// Characters, not bytes; wide ones count as one.
static size_t width_of(struct str text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++)
        width += ((unsigned char)text.at[i] & 0xc0) != 0x80;
    return width;
}

void table_add(struct table *table, struct str cell)
{
    size_t column = table->cell_count++ % table->column_count, width = width_of(cell);
    if (width > table->widths[column]) table->widths[column] = width;
    strbuf_add_str(&table->cells, cell);
    strbuf_add_byte(&table->cells, '\0');
}

void table_print(struct table *table, FILE *out)
{
    assert(table->cell_count % table->column_count == 0);
    const char *at = table->cells.at;
    for (size_t i = 0; i < table->cell_count; i++) {
        struct str cell = str_c(at);
        size_t column = i % table->column_count;
        bool is_last = column == table->column_count - 1;
        fwrite(cell.at, 1, cell.len, out);
        if (is_last) {
            fputc('\n', out);
        } else {
            fprintf(out, "%*s", (int)(table->widths[column] - width_of(cell) + GAP), "");
        }
        at += cell.len + 1;
    }
    table->cell_count = 0;
    strbuf_clear(&table->cells);
}
