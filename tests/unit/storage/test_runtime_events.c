// What event sources of a runtime say: events once each, in the partition of their week; errors
// once a text.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "database.h"
#include "modules/events/cloud_event_store.h"
#include "modules/runtimes/runtime_error_store.h"
#include "modules/runtimes/runtime_store.h"

static struct answer put_event(struct database *database, const char *runtime, const struct cloud_event *event)
{
    struct answer answer;
    answer_init(&answer, database);
    cloud_event_store_put(database->pg, database->account, str_c(runtime), event, answer_on_count, &answer);
    answer_wait(&answer);
    return answer;
}

static void expect_query(struct database *database, const char *want, const char *sql)
{
    char got[256];
    database_query(database->account, sql, got, sizeof got);
    assert_string_equal(got, want);
}

static void an_event_is_kept_once(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], now[CLOCK_RFC3339_BYTES];
    database_make_runtime(database, "prod", id);
    clock_format_rfc3339(clock_wall_ms(), now);
    // With a time of its own, without one, and with one that is years off.
    const char *times[] = {now, "", "1999-01-01T00:00:00Z", "2222-01-01T00:00:00Z"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        struct cloud_event event = {.id = str_c(name),
                                    .source = STR("github"),
                                    .type = STR("push"),
                                    .time = str_c(times[i]),
                                    .json = STR("{\"a\":1}")};
        struct answer first = put_event(database, "prod", &event), again = put_event(database, "prod", &event);
        if (first.code != ERROR_NONE) fail_msg("%s", first.text);
        assert_int_equal(first.count, 1);
        assert_int_equal(again.code, ERROR_NONE);
        assert_int_equal(again.count, 0);
    }
    // The same id from elsewhere is another event.
    struct cloud_event other = {
        .id = STR("0"), .source = STR("gitlab"), .type = STR("push"), .time = str_c(now), .json = STR("{}")};
    assert_int_equal(put_event(database, "prod", &other).count, 1);
    expect_query(database, "5", "SELECT count(*) FROM culvert.cloud_events");
    expect_query(database, "4",
                 "SELECT count(*) FROM culvert.cloud_events WHERE plain_bytes = 7 AND encoding = 0 "
                 "AND convert_from(content, 'UTF8') = '{\"a\":1}'");
    expect_query(database, "2",
                 "SELECT count(*) FROM culvert.cloud_events "
                 "WHERE stated_at <> occurred_at AND occurred_at = date_trunc('week', now())");
}

static void events_of_no_runtime_are_refused(void **state)
{
    struct database *database = database_of(state);
    struct cloud_event event = {.id = STR("1"), .source = STR("s"), .type = STR("t"), .json = STR("{}")};
    assert_int_equal(put_event(database, "gone", &event).code, ERROR_NOT_FOUND);
    expect_query(database, "0", "SELECT count(*) FROM culvert.cloud_events");
}

static struct answer keep(struct database *database, unsigned days)
{
    struct answer answer;
    answer_init(&answer, database);
    cloud_event_store_partitions(database->pg, days, answer_on_count, &answer);
    answer_wait(&answer);
    return answer;
}

static void old_weeks_go(void **state)
{
    struct database *database = database_of(state);
    char text[256];
    database_query(NULL, "SELECT culvert.cloud_events_partitions(3650)", text, sizeof text);
    // Made beside the table, as the product makes one: PARTITION OF shuts the events and then asks
    // for the runtimes, against whoever deletes a runtime and with it its events.
    database_query(NULL, "CREATE TABLE culvert.cloud_events_20200106 (LIKE culvert.cloud_events INCLUDING ALL)", text,
                   sizeof text);
    database_query(NULL,
                   "ALTER TABLE culvert.cloud_events ATTACH PARTITION culvert.cloud_events_20200106 "
                   "FOR VALUES FROM ('2020-01-06') TO ('2020-01-13')",
                   text, sizeof text);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    database_query(database->account,
                   "INSERT INTO culvert.cloud_events SELECT current_setting('app.account_id'), 'prod', '2020-01-07', "
                   "sha256('a'), 'a', 'b', 'c', NULL, NULL, 0, 1, 'x'",
                   text, sizeof text);
    static const char used[] = "SELECT used_bytes > 0 FROM culvert.storage_room(current_setting('app.account_id'), '')";
    expect_query(database, "t", used);
    assert_int_equal(keep(database, 36500).count, 0);
    assert_int_equal(keep(database, 90).count, 1);
    assert_int_equal(keep(database, 90).count, 0);
    expect_query(database, "", "SELECT to_regclass('culvert.cloud_events_20200106')");
    expect_query(database, "f", used);
    // Two weeks back, this one, three ahead; every one behind the wall.
    expect_query(database, "6 6",
                 "SELECT count(*) || ' ' || count(*) FILTER (WHERE c.relforcerowsecurity) FROM pg_inherits i "
                 "JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'culvert.cloud_events'::regclass");
    // A stolen login must not be able to forget everything.
    assert_int_not_equal(keep(database, 6).code, ERROR_NONE);
}

static void an_error_is_one_text(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    char *long_text = malloc(RUNTIME_ERROR_MESSAGE_BYTES_MAX + 2);
    memset(long_text, 'e', RUNTIME_ERROR_MESSAGE_BYTES_MAX + 2);
    memcpy(long_text + RUNTIME_ERROR_MESSAGE_BYTES_MAX - 1, "\xc3\xa9", 2); // the bound falls inside a character
    const struct runtime_error errors[] = {
        {.message = STR("no route to Git")},
        {.message = STR("no route to Git"), .is_warning = true},
        {.message = STR("no route to Git")},
        {.message = str_of(long_text, RUNTIME_ERROR_MESSAGE_BYTES_MAX + 2)},
    };
    struct answer answer;
    answer_init(&answer, database);
    runtime_error_store_put(database->pg, database->account, STR("prod"), RUNTIME_ERROR_EVENT_SOURCE, errors, 4,
                            answer_on_count, &answer);
    answer_wait(&answer);
    free(long_text);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    assert_int_equal(answer.count, 4);
    expect_query(database, "3 8191", "SELECT count(*) || ' ' || max(length(message)) FROM culvert.runtime_errors");
    answer_init(&answer, database);
    runtime_store_get(database->pg, database->account, STR("prod"), answer_on_node, &answer);
    answer_wait(&answer);
    json_t *node = json_loads(answer.node, 0, NULL), *shown = json_get_array(node, "errors");
    assert_int_equal(json_array_size(shown), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(shown, 0), "__typename")), "HealthError");
    json_decref(node);
    answer_finish(&answer);
}

static void errors_of_a_runtime_are_bounded(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    struct answer answer;
    for (int round = 0; round < 3; round++) {
        char texts[RUNTIME_ERRORS_MAX][48];
        struct runtime_error errors[RUNTIME_ERRORS_MAX];
        for (int i = 0; i < RUNTIME_ERRORS_MAX; i++) {
            snprintf(texts[i], sizeof texts[i], "error %d of %d", i, round);
            errors[i] = (struct runtime_error){.message = str_c(texts[i])};
        }
        answer_init(&answer, database);
        runtime_error_store_put(database->pg, database->account, STR("prod"), RUNTIME_ERROR_INSTALLATION, errors,
                                RUNTIME_ERRORS_MAX, answer_on_count, &answer);
        answer_wait(&answer);
        if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    }
    expect_query(database, "200 0",
                 "SELECT count(*) || ' ' || count(*) FILTER (WHERE message LIKE '%of 0') FROM culvert.runtime_errors");
    answer_init(&answer, database);
    runtime_error_store_put(database->pg, database->account, STR("gone"), RUNTIME_ERROR_INSTALLATION,
                            &(struct runtime_error){.message = STR("x")}, 1, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_kept_once),
        cmocka_unit_test(events_of_no_runtime_are_refused),
        cmocka_unit_test(old_weeks_go),
        cmocka_unit_test(an_error_is_one_text),
        cmocka_unit_test(errors_of_a_runtime_are_bounded),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
