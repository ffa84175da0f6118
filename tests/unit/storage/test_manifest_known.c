// manifest_known: what was written a moment ago is not sent again, for the same account and server only.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "database.h"
#include "storage/manifests/manifest_known.h"
#include "storage/reports/report_store.h"

static void knows_what_it_was_told(void **state)
{
    (void)state;
    static const struct str account = {"0123456789abcdef01234567", 24}, other = {"0123456789abcdef01234568", 24};
    struct manifest_known *known = manifest_known_create();
    uint8_t one[ID_SHA256_BYTES] = {1}, same_place[ID_SHA256_BYTES] = {1, 0, 0, 0, 9};
    assert_false(manifest_known_has(known, 0, account, one));
    manifest_known_add(known, 0, account, one);
    assert_true(manifest_known_has(known, 0, account, one));
    assert_false(manifest_known_has(known, 1, account, one)); // another server
    assert_false(manifest_known_has(known, 0, other, one));
    assert_false(manifest_known_has(known, 0, account, same_place));
    manifest_known_add(known, 0, account, same_place);
    assert_true(manifest_known_has(known, 0, account, same_place));
    assert_true(manifest_known_has(known, 0, account, one));
    manifest_known_add(known, 0, STR_EMPTY, one);
    assert_false(manifest_known_has(known, 0, STR_EMPTY, one));
    manifest_known_add(NULL, 0, account, one);
    assert_false(manifest_known_has(NULL, 0, account, one));
    manifest_known_destroy(known);
}

static void forgets_what_nobody_asks_for(void **state)
{
    (void)state;
    static const struct str account = {"0123456789abcdef01234567", 24};
    struct manifest_known *known = manifest_known_create();
    uint8_t asked[ID_SHA256_BYTES] = {1}, once[ID_SHA256_BYTES] = {1, 0, 0, 0, 1}, more[ID_SHA256_BYTES] = {1};
    manifest_known_add(known, 0, account, asked);
    manifest_known_add(known, 0, account, once);
    for (uint8_t i = 2; i < 100; i++) { // all in the same place
        more[4] = i;
        manifest_known_add(known, 0, account, more);
        assert_true(manifest_known_has(known, 0, account, more));
        assert_true(manifest_known_has(known, 0, account, asked));
    }
    assert_false(manifest_known_has(known, 0, account, once));
    manifest_known_destroy(known);
}

// One report that is made ready, and then sent.
struct sending {
    struct answer answer;
    struct report_transaction *transaction;
    bool is_ready;
};

static void on_ready(void *arg)
{
    ((struct sending *)arg)->is_ready = true;
}

static void send_report(struct database *database, struct manifest_known *known, const char *name, uint64_t sequence)
{
    static const char manifest[] = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}";
    struct report report = {.type = REPORT_OBJECT,
                            .source = REPORT_FROM_TUNNEL,
                            .account_id = str_c(database->account),
                            .runtime = STR("prod"),
                            .epoch = 1,
                            .sequence = sequence,
                            .ref.version = STR("v1"),
                            .ref.kind = STR("ConfigMap"),
                            .ref.name = str_c(name),
                            .observed_at_ms = clock_wall_ms(),
                            .manifest = STR(manifest)};
    struct sending sending = {.is_ready = false};
    answer_init(&sending.answer, database);
    sending.transaction =
        report_store_prepare(database->pg, database_report_kinds(), known, &report, 1, on_ready, &sending);
    assert_true(sending.is_ready); // so small that it is done at once
    report_transaction_submit(sending.transaction, answer_on_reports, &sending.answer);
    answer_wait(&sending.answer);
    if (sending.answer.code != ERROR_NONE) fail_msg("%s", sending.answer.text);
    assert_int_equal(sending.answer.outcomes[0].result, REPORT_APPLIED);
    answer_finish(&sending.answer);
}

static void check_manifests(const struct database *database, const char *expected)
{
    char text[64];
    database_query(database->account, "SELECT count(*) FROM manifests", text, sizeof text);
    assert_string_equal(text, expected);
}

static void known_manifests_are_not_sent(void **state)
{
    struct database *database = database_of(state);
    struct manifest_known *known = manifest_known_create();
    char id[ID_UUID_BYTES], text[64];
    database_make_runtime(database, "prod", id);
    send_report(database, known, "a", 1);
    check_manifests(database, "1");
    // Behind its back, to see that it is not sent again.
    database_query(database->account, "DELETE FROM manifests RETURNING 1", text, sizeof text);
    send_report(database, known, "b", 2);
    check_manifests(database, "0");
    // Who knows nothing sends it.
    send_report(database, NULL, "c", 3);
    check_manifests(database, "1");
    manifest_known_destroy(known);
}

static void given_up(void **state)
{
    struct database *database = database_of(state);
    struct report report = {.account_id = str_c(database->account), .runtime = STR("prod")};
    struct sending sending = {.is_ready = false};
    sending.transaction =
        report_store_prepare(database->pg, database_report_kinds(), NULL, &report, 1, on_ready, &sending);
    report_transaction_destroy(sending.transaction);
    report_transaction_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_what_it_was_told),
        cmocka_unit_test(forgets_what_nobody_asks_for),
        cmocka_unit_test(known_manifests_are_not_sent),
        cmocka_unit_test(given_up),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
