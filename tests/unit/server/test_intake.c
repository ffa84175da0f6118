// intake: what a session is told, and when: cumulative acknowledgements after COMMIT, rejects, a wish for a new
// snapshot, a pause while the queue is full. The store and the sessions are doubles.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/intake/intake.h"

enum { QUEUE_BYTES = 32 * 1024, BATCH_COUNT = 8, MANIFEST_BYTES_MAX = 10 * 1024 * 1024 };

struct bench {
    struct loop *loop;
    struct intake *intake;
    // The store's question that waits.
    report_store_done on_done;
    void *arg;
    size_t count;
    char manifest[64]; // of its first report
    struct report_outcome outcomes[BATCH_COUNT];
    char told[16384]; // "1:ack 3;1:reject 4;2:resync 7;1:resume;"
    // On resume this session ends: its source must not be touched any more.
    bool forget_on_ack;
    // HTTP
    int answers;
    enum error_code code;
    size_t refused;
    char detail[64];
};

static struct bench *bench;

struct report_transaction {
    size_t count;
    char manifest[64];
};

static struct report_transaction *prepare(struct pg *pg, const struct report_kinds *kinds, struct manifest_known *known,
                                          const struct report *reports, size_t count, report_store_ready on_ready,
                                          void *arg)
{
    (void)kinds;
    (void)pg;
    (void)known;
    struct report_transaction *transaction = mem_zalloc(sizeof *transaction);
    transaction->count = count;
    snprintf(transaction->manifest, sizeof transaction->manifest, "%.*s",
             (int)(reports[0].manifest.len < 60 ? reports[0].manifest.len : 60), reports[0].manifest.at);
    on_ready(arg);
    return transaction;
}

static void submit(struct report_transaction *transaction, report_store_done on_done, void *arg)
{
    assert_null(bench->on_done);
    bench->on_done = on_done;
    bench->arg = arg;
    bench->count = transaction->count;
    memset(bench->outcomes, 0, sizeof bench->outcomes);
    snprintf(bench->manifest, sizeof bench->manifest, "%s", transaction->manifest);
    mem_free(transaction);
}

static void discard(struct report_transaction *transaction)
{
    mem_free(transaction);
}

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    size_t len = strlen(bench->told);
    va_list args;
    va_start(args, format);
    vsnprintf(bench->told + len, sizeof bench->told - len, format, args);
    va_end(args);
}

static void ack_session(void *to, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    static const char *const names[] = {
        [WIRE_ACK] = "ack", [WIRE_ACK_REJECT] = "reject", [WIRE_ACK_RESYNC] = "resync", [WIRE_ACK_DIGEST] = "digest"};
    (void)to;
    tell("%llu:%s %llu;", (unsigned long long)ref.id, names[ack->type], (unsigned long long)ack->sequence);
    if (bench->forget_on_ack) intake_forget_session(bench->intake, ref);
}

static void resume_session(void *to, struct tunnel_session_ref ref)
{
    (void)to;
    tell("%llu:resume;", (unsigned long long)ref.id);
}

static void abuse_session(void *to, struct tunnel_session_ref ref, const char *reason)
{
    (void)to;
    assert_true(reason[0]);
    tell("%llu:abuse;", (unsigned long long)ref.id);
}

static const struct intake_store store = {.prepare = prepare, .submit = submit, .discard = discard};
static const struct intake_sessions sessions = {ack_session, resume_session, abuse_session, NULL};

static void set_up_with(uint64_t unpacked_per_second)
{
    bench = mem_zalloc(sizeof *bench);
    bench->loop = loop_create("test", 0);
    bench->intake = intake_create(bench->loop, &(struct intake_options){.store = &store,
                                                                        .batch_count = BATCH_COUNT,
                                                                        .batch_bytes = 16 * 1024,
                                                                        .queue_bytes_max = QUEUE_BYTES,
                                                                        .unpacked_per_second = unpacked_per_second});
    intake_set_sessions(bench->intake, &sessions);
}

static void set_up(void)
{
    set_up_with(0);
}

static void tear_down(void)
{
    intake_stop(bench->intake);
    intake_destroy(bench->intake);
    loop_stop(bench->loop);
    loop_run(bench->loop);
    loop_destroy(bench->loop);
    mem_free(bench);
}

static void answer(enum error_code code)
{
    struct error err;
    error_set(&err, code, "as the test says");
    report_store_done on_done = bench->on_done;
    assert_non_null(on_done);
    bench->on_done = NULL;
    struct report_outcome outcomes[BATCH_COUNT];
    memcpy(outcomes, bench->outcomes, sizeof outcomes);
    on_done(bench->arg, code ? &err : NULL, code ? NULL : outcomes, code ? 0 : bench->count);
}

static bool take_record(uint64_t id, struct wire_report record)
{
    struct tunnel_session_info session = {.ref = {.node = 1, .id = id}, .epoch = 7};
    snprintf(session.identity.account_id, sizeof session.identity.account_id, "account");
    snprintf(session.identity.runtime, sizeof session.identity.runtime, "runtime");
    record.ref.kind = STR("Application");
    record.ref.name = STR("x");
    return intake_take_tunnel(bench->intake, &session, &record);
}

static bool take(uint64_t id, uint64_t sequence, struct str manifest)
{
    return take_record(id, (struct wire_report){.type = WIRE_REPORT_OBJECT,
                                                .sequence = sequence,
                                                .encoding = WIRE_REPORT_PLAIN,
                                                .manifest = manifest,
                                                .manifest_bytes = (uint32_t)manifest.len});
}

static void check_told(const char *expected)
{
    assert_string_equal(bench->told, expected);
    bench->told[0] = '\0';
}

static void acknowledged_after_commit_only(void **state)
{
    (void)state;
    set_up();
    assert_true(take_record(1, (struct wire_report){.type = WIRE_REPORT_HELLO}));
    assert_true(take(1, 1, STR("{}")));
    assert_true(take(1, 2, STR("{}")));
    assert_true(take(2, 9, STR("{}")));
    assert_true(take(1, 3, STR("{}")));
    check_told("");
    answer(ERROR_NONE);
    check_told("1:ack 1;");
    answer(ERROR_NONE);
    check_told("1:ack 3;2:ack 9;");
    assert_true(intake_is_idle(bench->intake));
    tear_down();
}

static void nothing_is_acknowledged_while_the_database_is_away(void **state)
{
    (void)state;
    set_up();
    assert_true(take(1, 1, STR("{}")));
    answer(ERROR_UNAVAILABLE);
    check_told("");
    while (!bench->on_done)
        uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
    answer(ERROR_NONE);
    check_told("1:ack 1;");
    tear_down();
}

static void refused_and_resync(void **state)
{
    (void)state;
    set_up();
    take(1, 1, STR("{}"));
    take(1, 2, STR("{}"));
    take(1, 3, STR("{}"));
    answer(ERROR_NONE);
    check_told("1:ack 1;");
    bench->outcomes[0] = (struct report_outcome){REPORT_REFUSED, NULL};
    bench->outcomes[1] = (struct report_outcome){REPORT_RESYNC, ""};
    answer(ERROR_NONE);
    check_told("1:reject 2;1:ack 3;1:resync 3;");
    tear_down();
}

static void session_gone_meanwhile(void **state)
{
    (void)state;
    set_up();
    take(1, 1, STR("{}"));
    take(2, 1, STR("{}"));
    intake_forget_session(bench->intake, (struct tunnel_session_ref){1, 1});
    intake_forget_session(bench->intake, (struct tunnel_session_ref){1, 77});
    answer(ERROR_NONE);
    check_told("");
    bench->forget_on_ack = true; // the session breaks inside the call
    bench->outcomes[0] = (struct report_outcome){REPORT_RESYNC, ""};
    answer(ERROR_NONE);
    check_told("2:ack 1;2:resync 1;");
    tear_down();
}

static void full_queue_pauses_and_resumes_in_turn(void **state)
{
    (void)state;
    set_up();
    char *large = mem_zalloc(QUEUE_BYTES);
    memset(large, ' ', QUEUE_BYTES);
    assert_false(take(1, 1, str_of(large, QUEUE_BYTES)));
    assert_false(take(2, 1, STR("{}")));
    assert_false(take(3, 1, STR("{}")));
    answer(ERROR_NONE);
    check_told("1:ack 1;1:resume;2:resume;3:resume;");
    answer(ERROR_NONE);
    check_told("2:ack 1;3:ack 1;");
    // A session that ends while paused is not resumed.
    assert_false(take(1, 2, str_of(large, QUEUE_BYTES)));
    assert_false(take(2, 2, STR("{}")));
    intake_forget_session(bench->intake, (struct tunnel_session_ref){1, 1});
    answer(ERROR_NONE);
    check_told("2:resume;");
    mem_free(large);
    tear_down();
}

// When nothing is under way any more nothing would come by to resume the rest.
static void everybody_is_resumed_at_the_end(void **state)
{
    enum { SESSIONS = 600 };
    (void)state;
    set_up();
    char *large = mem_zalloc(QUEUE_BYTES);
    size_t resumed = 0;
    memset(large, ' ', QUEUE_BYTES);
    for (uint64_t id = 1; id <= SESSIONS; id++)
        assert_false(take(id, 1, str_of(large, QUEUE_BYTES)));
    while (bench->on_done) {
        bench->told[0] = '\0';
        answer(ERROR_NONE);
    }
    for (const char *at = bench->told; (at = strstr(at, "resume;")); at++)
        resumed++;
    assert_int_equal(resumed, SESSIONS);
    mem_free(large);
    tear_down();
}

static void compressed_manifests(void **state)
{
    (void)state;
    set_up();
    const char text[] = "{\"kind\":\"Application\"}";
    char packed[256];
    size_t len = ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
    struct wire_report record = {.type = WIRE_REPORT_OBJECT, .sequence = 1, .encoding = WIRE_REPORT_ZSTD};
    record.manifest = str_of(packed, len);
    record.manifest_bytes = (uint32_t)strlen(text);
    assert_true(take_record(1, record));
    assert_string_equal(bench->manifest, text);
    answer(ERROR_NONE);
    check_told("1:ack 1;");
    // A lie about the size, a cut, no frame at all, one that would fill the memory.
    record.sequence = 2;
    record.manifest_bytes--;
    assert_true(take_record(1, record));
    record.manifest_bytes++;
    record.manifest.len -= 4;
    record.sequence = 3;
    assert_true(take_record(1, record));
    record.manifest = STR("no frame");
    record.sequence = 4;
    assert_true(take_record(1, record));
    char *zeroes = mem_zalloc(MANIFEST_BYTES_MAX + 1);
    size_t bound = ZSTD_compressBound(MANIFEST_BYTES_MAX + 1);
    char *bomb = mem_alloc(bound);
    record.manifest = str_of(bomb, ZSTD_compress(bomb, bound, zeroes, MANIFEST_BYTES_MAX + 1, 1));
    record.manifest_bytes = MANIFEST_BYTES_MAX + 1;
    record.sequence = 5;
    assert_true(take_record(1, record));
    mem_free(bomb);
    mem_free(zeroes);
    // That they were said is noted like any report, without what they hold.
    assert_string_equal(bench->manifest, "");
    check_told("");
    bench->outcomes[0].result = REPORT_REFUSED;
    answer(ERROR_NONE);
    check_told("1:reject 2;1:ack 2;");
    for (size_t i = 0; i < 3; i++)
        bench->outcomes[i].result = REPORT_REFUSED;
    answer(ERROR_NONE);
    check_told("1:reject 3;1:reject 4;1:reject 5;1:ack 5;");
    tear_down();
}

// A frame of blanks, as an object of session 1; bytes are what it states and unpacks to.
static bool take_blanks(uint64_t sequence, size_t bytes)
{
    char *plain = mem_alloc(bytes);
    memset(plain, ' ', bytes);
    size_t bound = ZSTD_compressBound(bytes);
    char *packed = mem_alloc(bound);
    struct wire_report record = {.type = WIRE_REPORT_OBJECT,
                                 .sequence = sequence,
                                 .encoding = WIRE_REPORT_ZSTD,
                                 .manifest = str_of(packed, ZSTD_compress(packed, bound, plain, bytes, 3)),
                                 .manifest_bytes = bytes};
    bool on = take_record(1, record);
    mem_free(packed);
    mem_free(plain);
    return on;
}

static void bombs_are_not_unpacked(void **state)
{
    (void)state;
    set_up();
    // 64 KiB may compress as well as they can.
    assert_false(take_blanks(1, 64 * 1024)); // more than the queue of this test
    assert_int_equal(bench->manifest[0], ' ');
    answer(ERROR_NONE);
    check_told("1:ack 1;1:resume;");
    assert_true(take_blanks(2, 64 * 1024 + 16 * 1024));
    assert_string_equal(bench->manifest, "");
    bench->outcomes[0].result = REPORT_REFUSED;
    answer(ERROR_NONE);
    check_told("1:reject 2;1:ack 2;");
    tear_down();
}

static void too_many_bombs_end_the_session(void **state)
{
    (void)state;
    set_up();
    uint64_t sequence = 0;
    while (!strstr(bench->told, "abuse")) {
        assert_true(++sequence < 200);
        (void)take_blanks(sequence, 1024 * 1024);
        if (bench->on_done) answer(ERROR_NONE);
    }
    assert_true(sequence > 100);
    // Of this session alone.
    bench->told[0] = '\0';
    assert_true(take(2, 1, STR("{}")));
    answer(ERROR_NONE);
    assert_string_equal(bench->told, "2:ack 1;");
    tear_down();
}

// Over the budget the tunnel is paused, and goes on by itself when it fills again.
static void unpacking_has_a_budget(void **state)
{
    (void)state;
    set_up_with(1000);
    assert_true(take_blanks(1, 3000));
    answer(ERROR_NONE);
    assert_false(take_blanks(2, 1050)); // four seconds' worth and a little more
    answer(ERROR_NONE);
    check_told("1:ack 1;1:ack 2;");
    while (!strstr(bench->told, "resume"))
        uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
    check_told("1:resume;");
    tear_down();
}

// ---- HTTP ----------------------------------------------------------------------------------------------------------

static void on_http(void *arg, const struct error *err, size_t refused, const char *detail)
{
    struct bench *of = arg;
    of->answers++;
    of->code = err ? err->code : ERROR_NONE;
    of->refused = refused;
    snprintf(of->detail, sizeof of->detail, "%s", detail);
}

static void http_answers_once(void **state)
{
    (void)state;
    set_up();
    struct report reports[3] = {{.account_id = STR("a")}, {.account_id = STR("a")}, {.account_id = STR("a")}};
    intake_take_http(bench->intake, reports, 3, on_http, bench);
    assert_int_equal(bench->answers, 0);
    answer(ERROR_NONE);
    assert_int_equal(bench->answers, 0);
    bench->outcomes[1] = (struct report_outcome){REPORT_REFUSED, "because"};
    answer(ERROR_NONE);
    assert_int_equal(bench->answers, 1);
    assert_int_equal(bench->code, ERROR_NONE);
    assert_int_equal(bench->refused, 1);
    assert_string_equal(bench->detail, "because");

    intake_take_http(bench->intake, reports, 2, on_http, bench);
    answer(ERROR_UNAVAILABLE);
    assert_int_equal(bench->answers, 2);
    assert_int_equal(bench->code, ERROR_UNAVAILABLE);

    intake_take_http(bench->intake, reports, 0, on_http, bench);
    assert_int_equal(bench->answers, 3);
    assert_int_equal(bench->code, ERROR_NONE);
    check_told("");
    tear_down();
}

static void http_is_told_when_full(void **state)
{
    (void)state;
    set_up();
    char *large = mem_zalloc(QUEUE_BYTES);
    memset(large, ' ', QUEUE_BYTES);
    assert_false(take(1, 1, str_of(large, QUEUE_BYTES)));
    mem_free(large);
    struct report report = {.account_id = STR("other")};
    intake_take_http(bench->intake, &report, 1, on_http, bench);
    assert_int_equal(bench->answers, 1);
    assert_int_equal(bench->code, ERROR_UNAVAILABLE);
    // Destroyed while it waits: the tunnel's report ends silently.
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_after_commit_only),
        cmocka_unit_test(nothing_is_acknowledged_while_the_database_is_away),
        cmocka_unit_test(refused_and_resync),
        cmocka_unit_test(session_gone_meanwhile),
        cmocka_unit_test(full_queue_pauses_and_resumes_in_turn),
        cmocka_unit_test(everybody_is_resumed_at_the_end),
        cmocka_unit_test(compressed_manifests),
        cmocka_unit_test(bombs_are_not_unpacked),
        cmocka_unit_test(too_many_bombs_end_the_session),
        cmocka_unit_test(unpacking_has_a_budget),
        cmocka_unit_test(http_answers_once),
        cmocka_unit_test(http_is_told_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
