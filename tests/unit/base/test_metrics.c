// metrics and log: what they print, and that a flood of label values stays bounded.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/metrics/metrics.h"

static void test_text(void **state)
{
    (void)state;
    struct metric_family *calls = metrics_counter("test_calls_total", "Calls.", "listener", NULL);
    metric_add(metric_with(calls, "a\"b"), 3);
    metric_observe(metric_with(metrics_histogram("test_seconds", "Time.", NULL)), 0.003);
    assert_ptr_equal(calls, metrics_counter("test_calls_total", "Calls.", "listener", NULL));
    struct strbuf out;
    strbuf_init(&out, 1 << 20);
    metrics_render(&out, false);
    assert_non_null(strstr(out.at, "# TYPE test_calls_total counter\ntest_calls_total{listener=\"a\\\"b\"} 3\n"));
    assert_non_null(strstr(out.at, "test_seconds_bucket{le=\"0.0025\"} 0\ntest_seconds_bucket{le=\"0.005\"} 1\n"));
    assert_non_null(strstr(out.at, "test_seconds_bucket{le=\"+Inf\"} 1\n"));
    strbuf_clear(&out);
    metrics_render(&out, true);
    assert_non_null(strstr(out.at, "# TYPE test_calls counter\ntest_calls_total{"));
    assert_true(str_ends(strbuf_str(&out), STR("# EOF\n")));
    strbuf_finish(&out);
}

static void test_series_are_bounded(void **state)
{
    (void)state;
    struct metric_family *family = metrics_counter("test_flood_total", "Flood.", "name", NULL);
    for (int i = 0; i < METRICS_SERIES_MAX * 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        metric_add(metric_with(family, name), 1);
    }
    assert_int_equal(metric_value(metric_with(family, "n0")), 1);
    assert_true(metric_value(metric_with(family, "other")) > METRICS_SERIES_MAX);
}

static void test_the_oldest_ages_are_shown(void **state)
{
    (void)state;
    struct metric_family *family = metrics_ages("test_lag_seconds", "Lag.", "name", NULL);
    uint64_t now_ms = clock_mono_ms();
    for (uint64_t i = 1; i <= 3000; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", (int)i);
        metric_age_set(family, i, now_ms - i, name);
    }
    metric_age_set(family, 3000, now_ms, "renamed: the first name stays"); // young again
    metric_age_set(family, 2999, 0);
    metric_age_set(family, 4000, 0); // never was
    struct strbuf out;
    strbuf_init(&out, 1 << 20);
    metrics_render(&out, false);
    const char *at = strstr(out.at, "# TYPE test_lag_seconds gauge\ntest_lag_seconds{name=\"n2998\"} ");
    assert_non_null(at);
    size_t shown = 0;
    for (const char *each = at; (each = strstr(each + 1, "test_lag_seconds{")); shown++) {
        char expected[64];
        snprintf(expected, sizeof expected, "test_lag_seconds{name=\"n%d\"} ", 2998 - (int)shown);
        assert_memory_equal(each, expected, strlen(expected));
    }
    assert_int_equal(shown, METRICS_AGES_SHOWN);
    assert_non_null(strstr(at, "\ntest_lag_seconds_count 2999\n"));
    for (uint64_t i = 1; i <= 3000; i++)
        metric_age_set(family, i, 0);
    strbuf_clear(&out);
    metrics_render(&out, false);
    assert_null(strstr(out.at, "test_lag_seconds{"));
    strbuf_finish(&out);
}

static void test_log_lines_are_json(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_set_fd(ends[1]);
    static char huge[10000];
    memset(huge, 'x', sizeof huge);
    log_info("test", "event", log_str("text", str_of("a\n\"\x1b[31m\xff", 9)), log_int("n", -5), log_bool("b", true));
    log_info("test", "cut", log_str("huge", str_of(huge, sizeof huge)), log_uint("u", 1));
    log_debug("test", "hidden");
    log_set_fd(STDERR_FILENO);
    char text[16384];
    ssize_t n = read(ends[0], text, sizeof text);
    close(ends[0]);
    close(ends[1]);
    assert_true(n > 0);
    struct str rest = str_of(text, (size_t)n), line;
    int lines = 0;
    while (rest.len && str_cut(&rest, '\n', &line)) {
        json_t *value;
        struct error err;
        assert_int_equal(json_decode(line, NULL, &value, &err), ERROR_NONE);
        assert_true(str_eq(json_get_str(value, "component"), STR("test")));
        if (lines == 0) assert_int_equal(json_get_int(value, "n", 0), -5);
        json_decref(value);
        lines++;
    }
    assert_int_equal(lines, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_series_are_bounded),
        cmocka_unit_test(test_the_oldest_ages_are_shown),
        cmocka_unit_test(test_log_lines_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
