// Cells of tables.
#include "cmocka_cli.h"

#include "base/clock.h"
#include "cli/print/table.h"
#include "cli/row.h"

static int64_t at_ms(const char *text)
{
    int64_t ms;
    assert_int_equal(clock_parse_rfc3339(str_c(text), &ms, NULL), ERROR_NONE);
    return ms;
}

static void cells_show_values(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum column_kind kind;
        const char *cell;
    } cases[] = {
        {"a.b", COLUMN_TEXT, "x"},
        {"a.c", COLUMN_TEXT, "<none>"},
        {"n", COLUMN_TEXT, "12"},
        {"f", COLUMN_TEXT, "0.25"},
        {"l", COLUMN_TEXT, "p,q"},
        {"o", COLUMN_TEXT, "2"},
        {"e", COLUMN_TEXT, "<none>"},
        {"t", COLUMN_AGE, "3d4h"},
        {"t", COLUMN_TIME, "2026-01-01T00:00:00Z"},
        {"sha", COLUMN_SHORT, "0123456789ab"},
        {"m", COLUMN_LINE, "first line..."},
        {"esc", COLUMN_TEXT, "a?[2Jb?c"},
    };
    json_t *row =
        json_loads("{\"a\":{\"b\":\"x\",\"c\":null},\"n\":12,\"f\":0.25,\"l\":[\"p\",\"q\"],\"o\":[{},{}],\"e\":[],"
                   "\"t\":\"2026-01-01T00:00:00.5Z\",\"sha\":\"0123456789abcdef\",\"m\":\"first line\\nsecond\","
                   "\"esc\":\"a\\u001b[2Jb\\nc\"}",
                   0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf cell;
        strbuf_init(&cell, 1000);
        row_cell(row, cases[i].path, cases[i].kind, at_ms("2026-01-04T04:30:00Z"), &cell);
        assert_string_equal(cell.at, cases[i].cell);
        strbuf_finish(&cell);
    }
    json_decref(row);
}

static void columns_are_as_wide_as_their_cells(void **state)
{
    (void)state;
    struct table table;
    char text[200] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    table_init(&table, 2);
    static const char *const cells[] = {"NAME", "SYNC", "größe", "ok", "b", "no"};
    for (size_t i = 0; i < 6; i++)
        table_add(&table, str_c(cells[i]));
    table_print(&table, out);
    table_add(&table, STR("c"));
    table_add(&table, STR("ok"));
    table_print(&table, out);
    fclose(out);
    assert_string_equal(text, "NAME    SYNC\ngröße   ok\nb       no\nc       ok\n");
    table_finish(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_show_values),
                                       cmocka_unit_test(columns_are_as_wide_as_their_cells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
