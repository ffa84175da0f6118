// event_handler: order, batches, one transaction in flight an account, and what becomes of reports when the database
// is away, busy, or refuses one of them. The store is a fake that answers when the test says so.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/intake/event_handler.h"

enum { APPLIES_MAX = 64, ITEMS_MAX = 64, BATCH_COUNT = 4, QUEUE_BYTES = 64 * 1024, BATCH_BYTES = 16 * 1024 };

// One call of the store, not yet answered.
struct apply {
    char account[64];
    char names[1024]; // "a b c"
    size_t count;
    report_store_done on_done;
    void *arg;
};

struct told {
    char name[32];
    enum error_code code;
    enum report_result result;
    size_t applies; // so many calls of the store before it was told
};

struct bench {
    struct loop *loop;
    struct event_handler *handler;
    struct apply applies[APPLIES_MAX];
    size_t apply_count, answered;
    struct told told[ITEMS_MAX];
    size_t told_count;
    size_t committed, progress;
    const char *sick; // the fake answers at once: this name fails the transaction it is in
    size_t transactions, prepared, discarded;
    const char *prepared_name; // where the last report's name lay
    bool slow;                 // the next transaction is ready only when the test says so
    struct report_transaction *slow_transaction;
    uv_timer_t limit;
    bool limit_passed;
    // Submitted from the first callback.
    const char *follow_up;
};

static struct bench *bench; // the fake store has no context of its own
static uint64_t account_bytes, runtime_bytes, transactions;
// Longer than a busy machine takes between two lines of a test.
static const uint64_t park_ms = 1500;

// Ready at once, or when the test says so.
struct report_transaction {
    struct apply apply;
    report_store_ready on_ready;
    void *ready_arg;
};

static struct report_transaction *fake_prepare(struct pg *pg, const struct report_kinds *kinds,
                                               struct manifest_known *known, const struct report *reports, size_t count,
                                               report_store_ready on_ready, void *arg)
{
    (void)kinds;
    (void)known;
    assert_ptr_equal(pg, (struct pg *)bench);
    struct report_transaction *transaction = mem_zalloc(sizeof *transaction);
    struct apply *apply = &transaction->apply;
    apply->count = count;
    snprintf(apply->account, sizeof apply->account, "%.*s", STR_ARG(reports[0].account_id));
    for (size_t i = 0; i < count; i++) {
        assert_true(str_eq(reports[i].account_id, reports[0].account_id));
        size_t len = strlen(apply->names);
        snprintf(apply->names + len, sizeof apply->names - len, "%s%.*s", i ? " " : "", STR_ARG(reports[i].ref.name));
    }
    bench->prepared++;
    bench->prepared_name = reports[count - 1].ref.name.at;
    if (bench->slow) {
        transaction->on_ready = on_ready;
        transaction->ready_arg = arg;
        bench->slow_transaction = transaction;
    } else {
        on_ready(arg);
    }
    return transaction;
}

static void fake_submit(struct report_transaction *transaction, report_store_done on_done, void *arg)
{
    bool is_sick = bench->sick && strstr(transaction->apply.names, bench->sick);
    struct apply apply = transaction->apply;
    mem_free(transaction);
    bench->transactions++;
    if (bench->sick) {
        struct report_outcome outcomes[BATCH_COUNT] = {{0}};
        struct error err;
        error_set(&err, ERROR_INVALID, "sick");
        on_done(arg, is_sick ? &err : NULL, is_sick ? NULL : outcomes, is_sick ? 0 : apply.count);
        return;
    }
    assert_true(bench->apply_count < APPLIES_MAX);
    apply.on_done = on_done;
    apply.arg = arg;
    bench->applies[bench->apply_count++] = apply;
}

static void fake_discard(struct report_transaction *transaction)
{
    if (transaction) bench->discarded++;
    if (transaction && transaction == bench->slow_transaction) bench->slow_transaction = NULL;
    mem_free(transaction);
}

static void on_committed(void *ctx, const struct report *reports, const struct report_outcome *outcomes, size_t count)
{
    (void)reports;
    (void)outcomes;
    ((struct bench *)ctx)->committed += count;
}

static void on_progress(void *ctx)
{
    ((struct bench *)ctx)->progress++;
}

static void submit(const char *account, const char *name, size_t bytes, bool patient, enum error_code expected);

static void on_item(void *arg, const struct error *err, const struct report *report,
                    const struct report_outcome *outcome)
{
    assert_ptr_equal(arg, bench);
    assert_true(bench->told_count < ITEMS_MAX);
    struct told *told = &bench->told[bench->told_count++];
    snprintf(told->name, sizeof told->name, "%.*s", STR_ARG(report->ref.name));
    told->code = err ? err->code : ERROR_NONE;
    told->result = err ? 0 : outcome->result;
    told->applies = bench->apply_count;
    const char *name = bench->follow_up;
    bench->follow_up = NULL;
    if (name) submit("a", name, 0, true, ERROR_NONE);
}

static void submit(const char *account, const char *name, size_t bytes, bool patient, enum error_code expected)
{
    char *manifest = mem_zalloc(bytes + 1);
    struct report report = {.account_id = str_c(account),
                            .ref.name = str_c(name),
                            .runtime = STR("r"),
                            .manifest = str_of(manifest, bytes)};
    struct error err;
    assert_int_equal(event_handler_submit(bench->handler, &report, patient, on_item, bench, &err), expected);
    mem_free(manifest);
}

// Of account "a".
static void submit_of(const char *runtime, enum report_type type, const char *name, bool patient,
                      enum error_code expected)
{
    struct report report = {.type = type, .account_id = STR("a"), .ref.name = str_c(name), .runtime = str_c(runtime)};
    struct error err;
    assert_int_equal(event_handler_submit(bench->handler, &report, patient, on_item, bench, &err), expected);
}

static void answer(size_t i, enum error_code code)
{
    struct apply apply = bench->applies[i];
    struct report_outcome outcomes[BATCH_COUNT] = {{0}};
    struct error err;
    assert_non_null(apply.on_done);
    bench->applies[i].on_done = NULL;
    bench->answered++;
    error_set(&err, code, "as the test says");
    apply.on_done(apply.arg, code ? &err : NULL, code ? NULL : outcomes, code ? 0 : apply.count);
}

static void on_limit(uv_timer_t *timer)
{
    ((struct bench *)timer->data)->limit_passed = true;
}

// Runs the loop until the fake has been called so many times.
static void run_until(size_t applies)
{
    bench->limit_passed = false;
    uv_timer_start(&bench->limit, on_limit, 20000, 0);
    while (bench->apply_count < applies && !bench->limit_passed)
        uv_run(loop_uv(bench->loop), UV_RUN_ONCE);
    uv_timer_stop(&bench->limit);
    assert_int_equal(bench->apply_count, applies);
}

static void set_up(uint64_t delay_ms)
{
    bench = mem_zalloc(sizeof *bench);
    bench->loop = loop_create("test", 0);
    uv_timer_init(loop_uv(bench->loop), &bench->limit);
    bench->limit.data = bench;
    bench->handler = event_handler_create(bench->loop, &(struct event_handler_options){
                                                           .pg = (struct pg *)bench,
                                                           .batch_count = BATCH_COUNT,
                                                           .batch_bytes = BATCH_BYTES,
                                                           .batch_delay_ms = delay_ms,
                                                           .park_ms = park_ms,
                                                           .queue_bytes_max = QUEUE_BYTES,
                                                           .prepare = fake_prepare,
                                                           .submit = fake_submit,
                                                           .discard = fake_discard,
                                                           .account_bytes_max = account_bytes,
                                                           .runtime_bytes_max = runtime_bytes,
                                                           .transactions_max = transactions,
                                                           .on_committed = on_committed,
                                                           .on_progress = on_progress,
                                                           .ctx = bench,
                                                       });
}

static void tear_down(void)
{
    event_handler_destroy(bench->handler);
    uv_close((uv_handle_t *)&bench->limit, NULL);
    loop_stop(bench->loop);
    loop_run(bench->loop);
    loop_destroy(bench->loop);
    mem_free(bench);
    bench = NULL;
}

static void check_told(const char *names, enum error_code code)
{
    char got[1024] = "";
    for (size_t i = 0; i < bench->told_count; i++) {
        size_t len = strlen(got);
        snprintf(got + len, sizeof got - len, "%s%s", i ? " " : "", bench->told[i].name);
        assert_int_equal(bench->told[i].code, code);
    }
    assert_string_equal(got, names);
    bench->told_count = 0;
}

static void keeps_order_with_one_in_flight(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "1", 0, true, ERROR_NONE);
    for (const char *name = "2\0003\0004\0005\0006\0"; *name; name += 2)
        submit("a", name, 0, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 1);
    assert_string_equal(bench->applies[0].names, "1");
    answer(0, ERROR_NONE);
    check_told("1", ERROR_NONE);
    assert_int_equal(bench->apply_count, 2);
    assert_string_equal(bench->applies[1].names, "2 3 4 5");
    answer(1, ERROR_NONE);
    check_told("2 3 4 5", ERROR_NONE);
    assert_string_equal(bench->applies[2].names, "6");
    assert_false(event_handler_is_idle(bench->handler));
    answer(2, ERROR_NONE);
    check_told("6", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    assert_int_equal(bench->committed, 6);
    assert_int_equal(bench->progress, 3);
    tear_down();
}

static void accounts_do_not_wait_for_each_other(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "1", 0, true, ERROR_NONE);
    submit("b", "2", 0, true, ERROR_NONE);
    submit("c", "3", 0, false, ERROR_NONE);
    assert_int_equal(bench->apply_count, 3);
    answer(2, ERROR_NONE);
    answer(0, ERROR_NONE);
    check_told("3 1", ERROR_NONE);
    submit("a", "4", 0, true, ERROR_NONE);
    assert_string_equal(bench->applies[3].account, "a");
    answer(1, ERROR_NONE);
    answer(3, ERROR_NONE);
    check_told("2 4", ERROR_NONE);
    tear_down();
}

// While one transaction is in flight the next is made ready, but goes only behind it; when the first fails, it is given
// up and its reports come again behind those of the first.
static void next_is_made_ready_meanwhile(void **state)
{
    (void)state;
    set_up(60 * 1000);
    for (const char *name = "1\0002\0003\0004\0005\0006\0007\000"; *name; name += 2)
        submit("a", name, 0, true, ERROR_NONE);
    assert_int_equal(bench->prepared, 1); // three are no full one
    submit("a", "8", 0, true, ERROR_NONE);
    submit("a", "9", 0, true, ERROR_NONE);
    assert_int_equal(bench->prepared, 2);
    assert_int_equal(bench->apply_count, 1);
    answer(0, ERROR_NONE);
    assert_int_equal(bench->told[0].applies, 2); // the next one has left already
    check_told("1 2 3 4", ERROR_NONE);
    assert_string_equal(bench->applies[1].names, "5 6 7 8");
    for (const char *name = "a\000b\000c\000"; *name; name += 2)
        submit("a", name, 0, true, ERROR_NONE);
    assert_int_equal(bench->prepared, 3);
    answer(1, ERROR_CONFLICT);
    assert_int_equal(bench->discarded, 1);
    run_until(3);
    assert_string_equal(bench->applies[2].names, "5 6 7 8");
    answer(2, ERROR_NONE);
    assert_string_equal(bench->applies[3].names, "9 a b c");
    answer(3, ERROR_NONE);
    check_told("5 6 7 8 9 a b c", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// One that takes its time to be made ready goes when it is; one that is not ready when the handler ends is given up.
static void slow_to_be_made_ready(void **state)
{
    (void)state;
    set_up(0);
    bench->slow = true;
    submit("a", "1", 0, true, ERROR_NONE);
    submit("a", "2", 0, true, ERROR_NONE);
    assert_int_equal(bench->prepared, 1);
    assert_int_equal(bench->apply_count, 0);
    struct report_transaction *transaction = bench->slow_transaction;
    transaction->on_ready(transaction->ready_arg);
    assert_int_equal(bench->apply_count, 1);
    answer(0, ERROR_NONE);
    check_told("1", ERROR_NONE);
    assert_int_equal(bench->prepared, 2);
    tear_down(); // frees what is not ready, or LeakSanitizer says so
}

static void batches_by_count_bytes_and_delay(void **state)
{
    (void)state;
    set_up(60 * 1000);
    for (const char *name = "1\0002\0003\000"; *name; name += 2)
        submit("a", name, 0, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 0);
    submit("a", "4", 0, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 1);
    answer(0, ERROR_NONE);
    bench->told_count = 0;
    // By bytes: the third does not fit, the batch goes without it.
    submit("a", "5", 7000, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 1);
    submit("a", "6", 7000, true, ERROR_NONE);
    submit("a", "7", 7000, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 2);
    assert_string_equal(bench->applies[1].names, "5 6");
    answer(1, ERROR_NONE);
    // One that is larger than a batch makes one of its own, behind what came before it.
    submit("a", "8", 20000, true, ERROR_NONE);
    assert_string_equal(bench->applies[2].names, "7");
    answer(2, ERROR_NONE);
    assert_string_equal(bench->applies[3].names, "8");
    answer(3, ERROR_NONE);
    tear_down();

    set_up(5);
    submit("a", "1", 0, true, ERROR_NONE);
    submit("a", "2", 0, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 0);
    run_until(1);
    assert_string_equal(bench->applies[0].names, "1 2");
    answer(0, ERROR_NONE);
    tear_down();
}

// While more than one transaction's worth is waiting, each is about few runtimes: the fewest that fill half of it.
static void runtimes_go_one_after_the_other(void **state)
{
    (void)state;
    set_up(60 * 1000);
    for (const char *name = "1\0002\0003\0004\0005\0006\0007\0008\000"; *name; name += 2)
        submit_of("first", REPORT_OBJECT, name, true, ERROR_NONE);
    static const char *const names[] = {"a1", "b1", "c1", "a2", "b2", "c2", "b3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        submit_of((char[]){names[i][0], '\0'}, REPORT_OBJECT, names[i], true, ERROR_NONE);
    answer(0, ERROR_NONE);
    answer(1, ERROR_NONE);
    assert_string_equal(bench->applies[2].names, "a1 a2");
    answer(2, ERROR_NONE);
    assert_string_equal(bench->applies[3].names, "b1 b2 b3");
    answer(3, ERROR_NONE);
    submit_of("d", REPORT_OBJECT, "d1", true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 4);
    submit_of("d", REPORT_OBJECT, "d2", true, ERROR_NONE); // all that waits fits into one
    assert_string_equal(bench->applies[4].names, "c1 c2 d1 d2");
    answer(4, ERROR_NONE);
    check_told("1 2 3 4 5 6 7 8 a1 a2 b1 b2 b3 c1 c2 d1 d2", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

static void database_away(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "t1", 0, true, ERROR_NONE);
    submit("a", "h1", 0, false, ERROR_NONE);
    submit("a", "t2", 0, true, ERROR_NONE);
    submit("a", "h2", 0, false, ERROR_NONE);
    submit("a", "t3", 0, true, ERROR_NONE);
    submit("a", "t4", 0, true, ERROR_NONE);
    answer(0, ERROR_UNAVAILABLE);
    check_told("h1 h2", ERROR_UNAVAILABLE); // also those whose turn had not come
    submit("a", "h3", 0, false, ERROR_UNAVAILABLE);
    submit("b", "h4", 0, false, ERROR_NONE); // nothing is known about b
    // The next try of a may be due by now, or later.
    size_t b = bench->applies[1].account[0] == 'b' ? 1 : 2, a = 3 - b;
    assert_string_equal(bench->applies[b].account, "b");
    answer(b, ERROR_NONE);
    check_told("h4", ERROR_NONE);
    run_until(3);
    assert_string_equal(bench->applies[a].names, "t1 t2 t3 t4");
    answer(a, ERROR_UNAVAILABLE);
    run_until(4);
    assert_string_equal(bench->applies[3].names, "t1 t2 t3 t4");
    answer(3, ERROR_NONE);
    check_told("t1 t2 t3 t4", ERROR_NONE);
    submit("a", "h5", 0, false, ERROR_NONE); // back
    answer(4, ERROR_NONE);
    check_told("h5", ERROR_NONE);
    tear_down();
}

static void conflicts_are_tried_again_for_all(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "h1", 0, false, ERROR_NONE);
    submit("a", "t1", 0, true, ERROR_NONE);
    for (size_t i = 0; i < 3; i++) {
        answer(i, ERROR_CONFLICT);
        assert_int_equal(bench->told_count, 0);
        run_until(i + 2);
        assert_string_equal(bench->applies[i + 1].names, "h1 t1");
    }
    answer(3, ERROR_CONFLICT);
    check_told("h1", ERROR_UNAVAILABLE);
    run_until(5);
    answer(4, ERROR_NONE);
    check_told("t1", ERROR_NONE);
    tear_down();
}

static void time_out_makes_transactions_smaller(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "0", 0, true, ERROR_NONE);
    submit("a", "1", 0, true, ERROR_NONE);
    submit("a", "2", 0, true, ERROR_NONE);
    answer(0, ERROR_NONE);
    answer(1, ERROR_TIMEOUT);
    submit("a", "3", 0, true, ERROR_NONE);
    submit("a", "4", 0, true, ERROR_NONE);
    run_until(3);
    assert_string_equal(bench->applies[2].names, "1");
    answer(2, ERROR_NONE);
    assert_string_equal(bench->applies[3].names, "2");
    answer(3, ERROR_NONE);
    assert_string_equal(bench->applies[4].names, "3 4"); // those behind go together again
    answer(4, ERROR_NONE);
    check_told("0 1 2 3 4", ERROR_NONE);
    tear_down();
}

// The end of a large snapshot that always takes too long.
static void slow_one_stops_its_own_runtime_alone(void **state)
{
    (void)state;
    set_up(0);
    submit_of("big", REPORT_SNAPSHOT_END, "end", true, ERROR_NONE);
    submit_of("big", REPORT_OBJECT, "b1", true, ERROR_NONE);
    submit_of("big", REPORT_OBJECT, "h1", false, ERROR_NONE);
    submit_of("small", REPORT_OBJECT, "s1", true, ERROR_NONE);
    answer(0, ERROR_TIMEOUT);
    check_told("h1", ERROR_TIMEOUT);
    assert_string_equal(bench->applies[1].names, "s1"); // at once
    submit_of("big", REPORT_OBJECT, "b2", true, ERROR_NONE);
    submit_of("big", REPORT_OBJECT, "h2", false, ERROR_UNAVAILABLE);
    submit_of("small", REPORT_OBJECT, "h3", false, ERROR_NONE);
    answer(1, ERROR_NONE);
    assert_string_equal(bench->applies[2].names, "h3");
    answer(2, ERROR_NONE);
    check_told("s1 h3", ERROR_NONE);
    for (size_t i = 3; i < 5; i++) { // after a while, alone
        run_until(i + 1);
        assert_string_equal(bench->applies[i].names, "end");
        assert_int_equal(bench->told_count, 0);
        answer(i, ERROR_TIMEOUT);
    }
    // It is given up, and the agent sends another snapshot.
    assert_int_equal(bench->told[0].result, REPORT_RESYNC);
    check_told("end", ERROR_NONE);
    assert_string_equal(bench->applies[5].names, "b1 b2");
    answer(5, ERROR_NONE);
    check_told("b1 b2", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// An object is refused only when others did get through; once it gets through itself nothing is held against it.
static void slow_object_is_refused_when_others_went(void **state)
{
    (void)state;
    set_up(0);
    for (size_t round = 0, i = 0; round < 2; round++) {
        submit_of("big", REPORT_OBJECT, "slow", true, ERROR_NONE);
        answer(i++, ERROR_TIMEOUT);
        submit_of("small", REPORT_OBJECT, "s1", true, ERROR_NONE);
        answer(i++, ERROR_NONE);
        check_told("s1", ERROR_NONE);
        run_until(i + 1);
        answer(i++, ERROR_TIMEOUT);
        run_until(i + 1);
        answer(i++, round ? ERROR_TIMEOUT : ERROR_NONE);
        assert_int_equal(bench->told[0].result, round ? REPORT_REFUSED : REPORT_APPLIED);
        check_told("slow", ERROR_NONE);
    }
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// When all take too long it is the database: nothing is refused, and whoever can come again is told to.
static void slow_database_refuses_nothing(void **state)
{
    (void)state;
    set_up(0);
    submit_of("r", REPORT_OBJECT, "t1", true, ERROR_NONE);
    submit_of("r", REPORT_OBJECT, "t2", true, ERROR_NONE);
    size_t i = 0;
    for (; i < 3; i++) {
        run_until(i + 1);
        assert_string_equal(bench->applies[i].names, "t1");
        answer(i, ERROR_TIMEOUT);
    }
    submit_of("r", REPORT_OBJECT, "h", false, ERROR_UNAVAILABLE);
    for (size_t round = 0; round < 2; round++, i += 2) {
        run_until(i + 1);
        assert_string_equal(bench->applies[i].names, "t2"); // does the one behind get through?
        answer(i, ERROR_TIMEOUT);
        run_until(i + 2);
        assert_string_equal(bench->applies[i + 1].names, "t1");
        answer(i + 1, ERROR_TIMEOUT);
    }
    assert_int_equal(bench->told_count, 0);
    run_until(i + 1);
    assert_string_equal(bench->applies[i].names, "t2");
    answer(i, ERROR_NONE);
    assert_int_equal(bench->told[0].result, REPORT_REFUSED);
    check_told("t1 t2", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// Two runtimes at once: only one waits aside, the database is blamed for the other, and what waits ends with the rest.
static void parked_reports_end_with_the_rest(void **state)
{
    (void)state;
    set_up(0);
    submit_of("big", REPORT_SNAPSHOT_END, "end", true, ERROR_NONE);
    submit_of("big", REPORT_OBJECT, "b1", true, ERROR_NONE);
    submit_of("small", REPORT_OBJECT, "s1", true, ERROR_NONE);
    answer(0, ERROR_TIMEOUT);
    answer(1, ERROR_TIMEOUT);
    submit_of("small", REPORT_OBJECT, "h", false, ERROR_UNAVAILABLE);
    assert_int_equal(bench->told_count, 0);
    event_handler_destroy(bench->handler);
    bench->handler = NULL;
    assert_int_equal(bench->told_count, 3);
    bench->told_count = 0;
    tear_down();
}

static void bad_data_is_isolated(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "first", 0, true, ERROR_NONE);
    submit("a", "good", 0, true, ERROR_NONE);
    submit("a", "sick", 0, true, ERROR_NONE);
    submit("a", "sick", 0, false, ERROR_NONE);
    submit("a", "fine", 0, false, ERROR_NONE);
    submit("a", "last", 0, true, ERROR_NONE);
    bench->sick = "sick";
    answer(0, ERROR_NONE);
    // first; then four together, which fail; these one by one; then the last.
    assert_int_equal(bench->transactions, 1 + 1 + 4 + 1);
    assert_int_equal(bench->told_count, 6);
    const enum report_result expected[] = {REPORT_APPLIED, REPORT_APPLIED, REPORT_REFUSED,
                                           REPORT_REFUSED, REPORT_APPLIED, REPORT_APPLIED};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(bench->told[i].result, expected[i]);
    check_told("first good sick sick fine last", ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// A defect is no word about the report: it is tried again, however often, as long as nothing else gets through.
static void defects_are_tried_again(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "h1", 0, false, ERROR_NONE);
    answer(0, ERROR_INTERNAL);
    check_told("h1", ERROR_INTERNAL); // comes again by itself
    submit("a", "t1", 0, true, ERROR_NONE);
    submit("a", "t2", 0, true, ERROR_NONE);
    submit("a", "h2", 0, false, ERROR_NONE);
    for (size_t i = 1; i < 9; i++) {
        assert_string_equal(bench->applies[i].names, "t1");
        answer(i, ERROR_INTERNAL);
        assert_int_equal(bench->told_count, 0);
        run_until(i + 2);
    }
    assert_string_equal(bench->applies[9].names, "t2"); // does the one behind get through?
    answer(9, ERROR_INTERNAL);
    check_told("h2", ERROR_UNAVAILABLE);
    run_until(11);
    assert_string_equal(bench->applies[10].names, "t1");
    answer(10, ERROR_NONE);
    assert_string_equal(bench->applies[11].names, "t2");
    answer(11, ERROR_NONE);
    assert_int_equal(bench->told[0].result, REPORT_APPLIED);
    check_told("t1 t2", ERROR_NONE);
    tear_down();
}

static void poison_is_kept_out(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "poison", 0, true, ERROR_NONE);
    submit("a", "t1", 0, true, ERROR_NONE);
    submit("a", "t2", 0, true, ERROR_NONE);
    for (size_t i = 0; i < 8; i++) {
        assert_string_equal(bench->applies[i].names, "poison");
        answer(i, ERROR_INTERNAL);
        run_until(i + 2);
    }
    assert_string_equal(bench->applies[8].names, "t1");
    assert_int_equal(bench->told_count, 0);
    answer(8, ERROR_NONE);
    assert_int_equal(bench->told[0].result, REPORT_REFUSED);
    assert_int_equal(bench->told[1].result, REPORT_APPLIED);
    check_told("poison t1", ERROR_NONE); // in this order: an acknowledgement covers what came before
    assert_string_equal(bench->applies[9].names, "t2");
    answer(9, ERROR_NONE);
    check_told("t2", ERROR_NONE);
    // What is put aside ends with the rest.
    submit("b", "poison", 0, true, ERROR_NONE);
    submit("b", "t3", 0, true, ERROR_NONE);
    for (size_t i = 10; i < 18; i++) {
        answer(i, ERROR_INTERNAL);
        run_until(i + 2);
    }
    event_handler_destroy(bench->handler);
    check_told("poison t3", ERROR_CANCELLED);
    bench->handler = NULL;
    tear_down();
}

static void full_queue(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "1", QUEUE_BYTES, true, ERROR_NONE);
    assert_true(event_handler_is_full(bench->handler));
    submit("a", "h", 0, false, ERROR_UNAVAILABLE);
    submit("b", "h", 0, false, ERROR_UNAVAILABLE);
    submit("a", "2", 0, true, ERROR_NONE); // a session's last one before it is paused
    answer(0, ERROR_NONE);
    assert_false(event_handler_is_full(bench->handler));
    answer(1, ERROR_NONE);
    check_told("1 2", ERROR_NONE);
    tear_down();
}

static void shares_of_the_queue(void **state)
{
    (void)state;
    account_bytes = 16 * 1024;
    runtime_bytes = 8 * 1024;
    set_up(0);
    account_bytes = runtime_bytes = 0;
    submit("a", "1", 9 * 1024, true, ERROR_NONE);
    assert_false(event_handler_has_room(bench->handler, &(struct runtime_key){STR("a"), STR("r")}));
    assert_true(event_handler_has_room(bench->handler, &(struct runtime_key){STR("a"), STR("other")}));
    submit("a", "h", 0, false, ERROR_LIMITED);
    submit("b", "h", 0, false, ERROR_NONE); // nobody else is the worse for it
    submit("a", "2", 9 * 1024, true, ERROR_NONE);
    assert_false(event_handler_has_room(bench->handler, &(struct runtime_key){STR("a"), STR("other")}));
    assert_false(event_handler_is_full(bench->handler));
    answer(0, ERROR_NONE);
    assert_true(event_handler_has_room(bench->handler, &(struct runtime_key){STR("a"), STR("other")}));
    assert_false(event_handler_has_room(bench->handler, &(struct runtime_key){STR("a"), STR("r")}));
    answer(1, ERROR_NONE);
    answer(2, ERROR_NONE);
    check_told("1 h 2", ERROR_NONE);
    submit("a", "h", 0, false, ERROR_NONE);
    answer(3, ERROR_NONE);
    tear_down();
}

static char accounts_of_applies(size_t i)
{
    return bench->applies[i].account[0];
}

// Answers one transaction after the other; who was given how many of the first ones.
static void serve(size_t first, size_t count, size_t given[256])
{
    memset(given, 0, 256 * sizeof *given);
    for (size_t i = first; i < first + count; i++) {
        assert_true(i < bench->apply_count);
        given[(unsigned char)accounts_of_applies(i)]++;
        answer(i, ERROR_NONE);
        bench->told_count = 0;
    }
}

static void the_least_served_goes_first(void **state)
{
    (void)state;
    transactions = 1;
    set_up(0);
    transactions = 0;
    size_t given[256];
    // An account with fifty times as much to say as others, and it was here first.
    for (int i = 0; i < 50; i++)
        submit("a", "x", 100, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 1);
    submit("b", "1", 100, true, ERROR_NONE);
    submit("c", "2", 100, false, ERROR_NONE);
    submit("d", "3", 100, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 1); // one at a time
    serve(0, 4, given);
    assert_int_equal(given['a'], 1); // what was under way, and then everybody else
    assert_true(given['b'] == 1 && given['c'] == 1 && given['d'] == 1);
    // Who comes later waits for the one that is under way, too, and for no more.
    assert_int_equal(accounts_of_applies(4), 'a');
    submit("b", "4", 100, true, ERROR_NONE);
    serve(4, 2, given);
    assert_true(given['a'] == 1 && given['b'] == 1);
    while (bench->answered < bench->apply_count)
        answer(bench->answered, ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

// Two that always have one more to say, one at a time: each time their queues are empty between. Somebody with much to
// say gets his turns all the same.
static void who_says_little_often_starves_nobody(void **state)
{
    (void)state;
    transactions = 1;
    set_up(0);
    transactions = 0;
    size_t given[256] = {0};
    submit("b", "first", 1000, true, ERROR_NONE);
    for (int i = 0; i < 40; i++)
        submit("b", "much", 1000, true, ERROR_NONE);
    submit("x", "1", 1000, true, ERROR_NONE);
    submit("y", "1", 1000, true, ERROR_NONE);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(bench->apply_count, (size_t)i + 1);
        char account[2] = {accounts_of_applies((size_t)i)};
        given[(unsigned char)account[0]]++;
        // The other one of the two is in line, and this one will be, before the next transaction ends.
        answer((size_t)i, ERROR_NONE);
        if (account[0] != 'b') submit(account, "again", 1000, true, ERROR_NONE);
        bench->told_count = 0;
    }
    assert_true(given['b'] >= 4); // of four reports each
    assert_true(given['x'] >= 8 && given['y'] >= 8);
    while (bench->answered < bench->apply_count) {
        answer(bench->answered, ERROR_NONE);
        bench->told_count = 0;
    }
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

static void turns_are_counted_in_bytes(void **state)
{
    (void)state;
    transactions = 1;
    set_up(0);
    transactions = 0;
    size_t given[256];
    submit("z", "first", 0, true, ERROR_NONE); // the others find it under way
    for (int i = 0; i < 24; i++) {
        submit("a", "small", 0, true, ERROR_NONE);
        submit("b", "large", 1500, true, ERROR_NONE);
    }
    serve(0, 7, given);
    assert_int_equal(given['z'], 1);
    assert_true(given['a'] > given['b'] + 1 && given['b'] >= 1); // transactions of four reports each
    while (bench->answered < bench->apply_count) {
        answer(bench->answered, ERROR_NONE);
        bench->told_count = 0;
    }
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

static void so_many_are_in_flight(void **state)
{
    (void)state;
    transactions = 3;
    set_up(0);
    transactions = 0;
    for (char account[2] = "a"; account[0] < 'h'; account[0]++)
        submit(account, "x", 0, true, ERROR_NONE);
    assert_int_equal(bench->apply_count, 3);
    answer(1, ERROR_NONE);
    assert_int_equal(bench->apply_count, 4);
    answer(0, ERROR_UNAVAILABLE); // one that failed has had its turn as well
    assert_int_equal(bench->apply_count, 5);
    run_until(5);
    for (size_t i = 2; bench->told_count < 7; i++) {
        if (i == bench->apply_count) run_until(i + 1);
        answer(i, ERROR_NONE);
    }
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

static void callback_may_submit(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "0", 0, true, ERROR_NONE);
    submit("a", "1", 0, true, ERROR_NONE);
    submit("a", "2", 0, true, ERROR_NONE);
    answer(0, ERROR_NONE);
    bench->told_count = 0;
    bench->follow_up = "3";
    answer(1, ERROR_NONE);
    check_told("1 2", ERROR_NONE); // nothing overtook what was being told
    assert_string_equal(bench->applies[2].names, "3");
    answer(2, ERROR_NONE);
    tear_down();
}

static void destroy_with_items_waiting(void **state)
{
    (void)state;
    set_up(0);
    submit("a", "1", 0, true, ERROR_NONE);
    submit("a", "2", 0, false, ERROR_NONE);
    submit("b", "3", 0, true, ERROR_NONE);
    event_handler_stop(bench->handler);
    submit("a", "h", 0, false, ERROR_UNAVAILABLE);
    // The pool closes: what was in flight ends so, and nothing new begins.
    answer(0, ERROR_CANCELLED);
    check_told("2", ERROR_CANCELLED);
    answer(1, ERROR_CANCELLED);
    assert_int_equal(bench->apply_count, 2);
    event_handler_destroy(bench->handler);
    assert_int_equal(bench->told_count, 2);
    bench->handler = NULL;
    tear_down();
}

// Texts are copied, but those that stay where they are; these count no less for the queue.
static void kept_texts_stay_where_they_are(void **state)
{
    (void)state;
    set_up(0);
    char name[] = "1", manifest[3000] = "";
    struct error err;
    struct report report = {.account_id = STR("a"),
                            .runtime = STR("r"),
                            .ref.name = str_c(name),
                            .manifest = str_of(manifest, sizeof manifest)};
    assert_int_equal(event_handler_submit(bench->handler, &report, true, on_item, bench, &err), ERROR_NONE);
    assert_ptr_not_equal(bench->prepared_name, name);
    answer(0, ERROR_NONE);
    report.is_kept = true;
    size_t taken = 0;
    while (!event_handler_is_full(bench->handler)) {
        assert_int_equal(event_handler_submit(bench->handler, &report, false, on_item, bench, &err), ERROR_NONE);
        taken++;
    }
    assert_true(taken <= QUEUE_BYTES / sizeof manifest + 1);
    assert_ptr_equal(bench->prepared_name, name);
    while (bench->answered < bench->apply_count)
        answer(bench->answered, ERROR_NONE);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

static void odd_account_is_refused(void **state)
{
    (void)state;
    set_up(0);
    char account[80];
    memset(account, 'a', sizeof account);
    account[sizeof account - 1] = '\0';
    submit(account, "1", 0, true, ERROR_INVALID);
    assert_true(event_handler_is_idle(bench->handler));
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_with_one_in_flight),
        cmocka_unit_test(accounts_do_not_wait_for_each_other),
        cmocka_unit_test(next_is_made_ready_meanwhile),
        cmocka_unit_test(slow_to_be_made_ready),
        cmocka_unit_test(batches_by_count_bytes_and_delay),
        cmocka_unit_test(runtimes_go_one_after_the_other),
        cmocka_unit_test(database_away),
        cmocka_unit_test(conflicts_are_tried_again_for_all),
        cmocka_unit_test(time_out_makes_transactions_smaller),
        cmocka_unit_test(slow_one_stops_its_own_runtime_alone),
        cmocka_unit_test(slow_object_is_refused_when_others_went),
        cmocka_unit_test(slow_database_refuses_nothing),
        cmocka_unit_test(parked_reports_end_with_the_rest),
        cmocka_unit_test(bad_data_is_isolated),
        cmocka_unit_test(defects_are_tried_again),
        cmocka_unit_test(poison_is_kept_out),
        cmocka_unit_test(full_queue),
        cmocka_unit_test(shares_of_the_queue),
        cmocka_unit_test(the_least_served_goes_first),
        cmocka_unit_test(who_says_little_often_starves_nobody),
        cmocka_unit_test(turns_are_counted_in_bytes),
        cmocka_unit_test(so_many_are_in_flight),
        cmocka_unit_test(callback_may_submit),
        cmocka_unit_test(destroy_with_items_waiting),
        cmocka_unit_test(kept_texts_stay_where_they_are),
        cmocka_unit_test(odd_account_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
