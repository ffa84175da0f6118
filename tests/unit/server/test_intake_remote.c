// intake with a bus in which reports may be durable before they are applied: acknowledgements
// follow the oldest, ends of snapshots follow what belongs to them, and what they came to is looked
// up. Bus, store and sessions are doubles.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/bus/rabbitmq.h"
#include "server/intake/intake.h"
#include "storage/reports/snapshot_verdict_store.h"

enum { SUBMITTED_MAX = 16 };

struct bench {
    struct loop *loop;
    struct intake *intake;
    struct bus bus;
    void (*on_progress)(void *ctx);
    void *ctx;
    struct submitted {
        enum report_type type;
        uint64_t sequence, count;
        event_item_done on_done;
        void *arg;
    } submitted[SUBMITTED_MAX];
    size_t count;
    // The question about a verdict that waits.
    snapshot_verdict_done on_verdict;
    void *verdict_arg;
    uint64_t verdict_sequence;
    char told[1024];
};

static struct bench *bench;

// ---- fakes ---------------------------------------------------------------------------------------------------------

static enum error_code submit(struct bus *bus, const struct report *report, bool patient, event_item_done on_done,
                              void *arg, struct error *err)
{
    (void)bus;
    (void)err;
    assert_true(patient);
    assert_true(bench->count < SUBMITTED_MAX);
    bench->submitted[bench->count++] = (struct submitted){report->type, report->sequence, report->count, on_done, arg};
    return ERROR_NONE;
}

static bool has_room(const struct bus *bus, const struct runtime_key *key)
{
    (void)bus;
    (void)key;
    return true;
}

static bool is_idle(const struct bus *bus)
{
    (void)bus;
    return true;
}

static void stop(struct bus *bus)
{
    (void)bus;
}

static void destroy(struct bus *bus)
{
    struct error err;
    (void)bus;
    error_set(&err, ERROR_CANCELLED, "the end");
    for (size_t i = 0; i < bench->count; i++)
        if (bench->submitted[i].on_done) bench->submitted[i].on_done(bench->submitted[i].arg, &err, NULL, NULL);
}

static struct bus *create_bus(struct loop *loop, struct event_handler *handler,
                              const struct bus_rabbitmq_options *options)
{
    static const struct bus_form form = {.submit = submit,
                                         .has_room = has_room,
                                         .is_idle = is_idle,
                                         .stop = stop,
                                         .destroy = destroy,
                                         .is_remote = true};
    (void)loop;
    (void)handler;
    bench->on_progress = options->on_progress;
    bench->ctx = options->ctx;
    bench->bus.form = &form;
    return &bench->bus;
}

static void find_verdict(struct pg *pg, const struct runtime_key *key, uint64_t epoch, uint64_t sequence,
                         snapshot_verdict_done on_done, void *arg)
{
    (void)pg;
    assert_null(bench->on_verdict);
    assert_true(str_eq(key->account_id, STR("account")) && str_eq(key->runtime, STR("runtime")));
    assert_int_equal(epoch, 7);
    bench->on_verdict = on_done;
    bench->verdict_arg = arg;
    bench->verdict_sequence = sequence;
}

static void ack_session(void *to, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    static const char *const names[] = {[WIRE_ACK] = "ack", [WIRE_ACK_REJECT] = "reject", [WIRE_ACK_RESYNC] = "resync"};
    size_t len = strlen(bench->told);
    (void)to;
    snprintf(bench->told + len, sizeof bench->told - len, "%llu:%s %llu;", (unsigned long long)ref.id, names[ack->type],
             (unsigned long long)ack->sequence);
}

static void resume_session(void *to, struct tunnel_session_ref ref)
{
    size_t len = strlen(bench->told);
    (void)to;
    snprintf(bench->told + len, sizeof bench->told - len, "%llu:resume;", (unsigned long long)ref.id);
}

static void abuse_session(void *to, struct tunnel_session_ref ref, const char *reason)
{
    (void)to;
    (void)ref;
    fail_msg("%s", reason);
}

// ---- help ----------------------------------------------------------------------------------------------------------

static const struct intake_store store = {.find_verdict = find_verdict};
static const struct intake_sessions sessions = {ack_session, resume_session, abuse_session, NULL};

static void set_up(void)
{
    bench = mem_zalloc(sizeof *bench);
    bench->loop = loop_create("test", 0);
    bench->intake = intake_create(bench->loop, &(struct intake_options){.store = &store,
                                                                        .create_remote_bus = create_bus,
                                                                        .batch_count = 8,
                                                                        .batch_bytes = 1024,
                                                                        .queue_bytes_max = 1024 * 1024,
                                                                        .rabbitmq = (struct rabbitmq *)bench});
    intake_set_sessions(bench->intake, &sessions);
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

static bool take(enum wire_report_type type, uint64_t sequence, uint64_t count)
{
    struct tunnel_session_info session = {.ref = {.node = 1, .id = 1}, .epoch = 7};
    snprintf(session.identity.account_id, sizeof session.identity.account_id, "account");
    snprintf(session.identity.runtime, sizeof session.identity.runtime, "runtime");
    struct wire_report record = {.type = type, .sequence = sequence, .count = count, .ref.kind = STR("Application")};
    record.ref.name = STR("x");
    return intake_take_tunnel(bench->intake, &session, &record);
}

// The broker has it: durable, and not yet applied.
static void confirm(size_t i)
{
    struct report_outcome taken = {REPORT_UNCHANGED, ""};
    event_item_done on_done = bench->submitted[i].on_done;
    bench->submitted[i].on_done = NULL;
    on_done(bench->submitted[i].arg, NULL, NULL, &taken);
    bench->on_progress(bench->ctx);
}

static void check_told(const char *expected)
{
    assert_string_equal(bench->told, expected);
    bench->told[0] = '\0';
}

static void wait_for_question(void)
{
    while (!bench->on_verdict)
        uv_run(loop_uv(bench->loop), UV_RUN_ONCE);
}

static void answer(enum error_code code, enum snapshot_verdict verdict)
{
    struct error err;
    snapshot_verdict_done on_verdict = bench->on_verdict;
    error_set(&err, code, "as the test says");
    bench->on_verdict = NULL;
    on_verdict(bench->verdict_arg, code ? &err : NULL, verdict);
}

// ---- tests ---------------------------------------------------------------------------------------------------------

static void acknowledgements_follow_the_oldest(void **state)
{
    (void)state;
    set_up();
    for (uint64_t i = 1; i <= 3; i++)
        assert_true(take(WIRE_REPORT_OBJECT, i, 0));
    confirm(2);
    confirm(1);
    check_told("");
    confirm(0);
    check_told("1:ack 3;");
    tear_down();
}

static void an_end_follows_what_belongs_to_it(void **state)
{
    (void)state;
    set_up();
    assert_true(take(WIRE_REPORT_SNAPSHOT_BEGIN, 1, 0));
    assert_true(take(WIRE_REPORT_OBJECT, 2, 0));
    assert_false(take(WIRE_REPORT_SNAPSHOT_END, 3, 1)); // the session waits with it
    assert_int_equal(bench->count, 2);
    confirm(1);
    assert_int_equal(bench->count, 2);
    confirm(0);
    check_told("1:ack 2;1:resume;");
    assert_int_equal(bench->count, 3);
    assert_int_equal(bench->submitted[2].type, REPORT_SNAPSHOT_END);
    assert_int_equal(bench->submitted[2].sequence, 3);
    assert_int_equal(bench->submitted[2].count, 1);
    tear_down();
}

static void a_verdict_is_looked_up(void **state)
{
    (void)state;
    set_up();
    assert_true(take(WIRE_REPORT_SNAPSHOT_END, 5, 0));
    confirm(0);
    check_told("1:ack 5;");
    wait_for_question();
    assert_int_equal(bench->verdict_sequence, 5);
    answer(ERROR_NONE, SNAPSHOT_UNDECIDED);
    check_told("");
    wait_for_question();
    answer(ERROR_UNAVAILABLE, SNAPSHOT_UNDECIDED);
    wait_for_question();
    answer(ERROR_NONE, SNAPSHOT_NEEDS_RESYNC);
    check_told("1:resync 5;");
    // A new snapshot; the answer about the older one is of no interest any more.
    assert_true(take(WIRE_REPORT_SNAPSHOT_END, 7, 0));
    confirm(1);
    check_told("1:ack 7;");
    wait_for_question();
    assert_true(take(WIRE_REPORT_SNAPSHOT_BEGIN, 8, 0));
    answer(ERROR_NONE, SNAPSHOT_NEEDS_RESYNC);
    check_told("");
    tear_down();
}

static void a_session_ends_while_its_verdict_is_asked_for(void **state)
{
    (void)state;
    set_up();
    assert_true(take(WIRE_REPORT_SNAPSHOT_END, 5, 0));
    confirm(0);
    wait_for_question();
    intake_forget_session(bench->intake, (struct tunnel_session_ref){1, 1});
    answer(ERROR_NONE, SNAPSHOT_NEEDS_RESYNC);
    check_told("1:ack 5;");
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledgements_follow_the_oldest),
        cmocka_unit_test(an_end_follows_what_belongs_to_it),
        cmocka_unit_test(a_verdict_is_looked_up),
        cmocka_unit_test(a_session_ends_while_its_verdict_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
