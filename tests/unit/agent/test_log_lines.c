// log_lines: what arrives in pieces are whole lines with their times; what was broken off is
// dropped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/logs/log_lines.h"
#include "base/mem.h"

static char seen[64 * 1024];

static void on_line(void *arg, const struct log_line *line)
{
    (void)arg;
    size_t len = strlen(seen);
    snprintf(seen + len, sizeof seen - len, "%.*s|%.*s%s\n", STR_ARG(line->time), STR_ARG(line->text),
             line->is_piece ? "..." : "");
}

static void feed(struct log_lines *lines, const char *text)
{
    for (; *text; text++)
        log_lines_feed(lines, text, 1, on_line, NULL);
}

static int setup(void **state)
{
    struct log_lines *lines = mem_alloc(sizeof *lines);
    log_lines_init(lines);
    seen[0] = '\0';
    *state = lines;
    return 0;
}

static int teardown(void **state)
{
    log_lines_finish(*state);
    mem_free(*state);
    return 0;
}

static void lines_have_times(void **state)
{
    feed(*state, "2026-11-23T10:00:00.5Z one\r\nno time\n\n2026-11-23T10:00:01Z\n2026-11-23T10:00:02Z last");
    log_lines_end(*state, on_line, NULL);
    assert_string_equal(seen, "2026-11-23T10:00:00.5Z|one\n|no time\n|\n2026-11-23T10:00:01Z|\n"
                              "2026-11-23T10:00:02Z|last\n");
}

static void a_line_that_was_broken_off_comes_whole(void **state)
{
    feed(*state, "2026-11-23T10:00:00Z one\n2026-11-23T10:00:01Z the be");
    log_lines_break_off(*state, on_line, NULL);
    feed(*state, "2026-11-23T10:00:01Z the beginning\n");
    log_lines_end(*state, on_line, NULL);
    assert_string_equal(seen, "2026-11-23T10:00:00Z|one\n2026-11-23T10:00:01Z|the beginning\n");
}

static void of_a_long_line_the_pieces_were_given(void **state)
{
    char *text = mem_alloc(LOG_LINE_BYTES_MAX + 100);
    memset(text, 'x', LOG_LINE_BYTES_MAX + 99);
    text[LOG_LINE_BYTES_MAX + 99] = '\0';
    log_lines_feed(*state, text, LOG_LINE_BYTES_MAX + 99, on_line, NULL);
    mem_free(text);
    assert_true(str_ends(str_c(seen), STR("x...\n")));
    log_lines_break_off(*state, on_line, NULL);
    assert_true(str_ends(str_c(seen), STR("x\n")));
    assert_int_equal(strlen(strrchr(seen, '|')), 1 + 99 + 1);
    seen[0] = '\0';
    feed(*state, "2026-11-23T10:00:00Z next\n");
    assert_string_equal(seen, "2026-11-23T10:00:00Z|next\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_have_times, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_that_was_broken_off_comes_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(of_a_long_line_the_pieces_were_given, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
