#include "storage/reports/report_judge.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/reports/report_batch.h"
#include "storage/reports/report_kind.h"

enum { JUDGE_MS = 10000 };

struct judge_call {
    struct report_judgement *judgement;
    size_t room_count, held_count;
    size_t *held; // of each question behind those about rooms: index of the report
    report_judged on_judged;
    void *arg;
};

void report_judgement_destroy(struct report_judgement *judgement)
{
    if (!judgement) return;
    mem_free(judgement->held);
    mem_free(judgement->rooms);
    mem_free(judgement);
}

static int64_t number_of(const struct pg_rows *rows, int column)
{
    struct str text = pg_rows_get(rows, 0, column);
    bool is_negative = text.len && text.at[0] == '-';
    uint64_t value = 0;
    if (is_negative) text = str_of(text.at + 1, text.len - 1);
    if (parse_u64(text, 0, INT64_MAX, &value, NULL) != ERROR_NONE) return 0;
    return is_negative ? -(int64_t)value : (int64_t)value;
}

static void on_answered(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct judge_call *call = arg;
    struct report_judgement *judgement = call->judgement;
    (void)count;
    for (size_t i = 0; i < call->room_count && !err; i++) {
        struct report_room *room = &judgement->rooms[i];
        *room = (struct report_room){.bytes = number_of(&results[i], 0),
                                     .rows = number_of(&results[i], 1),
                                     .reserve = number_of(&results[i], 2)};
        snprintf(room->scope, sizeof room->scope, "%.*s", STR_ARG(pg_rows_get(&results[i], 0, 3)));
        snprintf(room->bytes_max, sizeof room->bytes_max, "%.*s", STR_ARG(pg_rows_get(&results[i], 0, 4)));
        snprintf(room->rows_max, sizeof room->rows_max, "%.*s", STR_ARG(pg_rows_get(&results[i], 0, 5)));
    }
    for (size_t i = 0; i < call->held_count && !err; i++) {
        const struct pg_rows *rows = &results[call->room_count + i];
        if (pg_rows_count(rows) == 0) continue;
        bool is_deleted = str_eq(pg_rows_get(rows, 0, 0), STR("t"));
        judgement->held[call->held[i]] = (struct report_held){true, !is_deleted, number_of(rows, 1)};
    }
    if (err) {
        report_judgement_destroy(judgement);
        judgement = NULL;
    }
    call->on_judged(call->arg, judgement);
    mem_free(call->held);
    mem_free(call);
}

// False: it is about no object.
static bool ask_held(struct pg_batch *batch, const struct report_kinds *kinds, const struct report *report)
{
    struct error ignored;
    bool is_object = report->type == REPORT_OBJECT || report->type == REPORT_DELETED || report->type == REPORT_CLUSTER;
    if (!is_object || report_check_identity(report, &ignored) != ERROR_NONE) return false;
    report_kinds_find(kinds, report)->add_held(batch, report);
    return true;
}

void report_judge_ask(struct pg *pg, const struct report_kinds *kinds, const struct report *reports, size_t count,
                      report_judged on_judged, void *arg)
{
    struct arena *arena = arena_create(0);
    struct judge_call *call = mem_alloc(sizeof *call);
    AUTO_FREE char *account = mem_strndup(reports[0].account_id.at, reports[0].account_id.len);
    struct pg_batch *batch = pg_batch_create(pg, account);
    *call = (struct judge_call){.on_judged = on_judged, .arg = arg, .held = mem_array(count + 1, sizeof *call->held)};
    struct str *runtimes = report_batch_runtimes(arena, reports, count, &call->room_count);
    call->judgement = mem_alloc(sizeof *call->judgement);
    *call->judgement = (struct report_judgement){mem_array(count + 1, sizeof(struct report_held)),
                                                 mem_array(call->room_count + 1, sizeof(struct report_room))};
    for (size_t i = 0; i < call->room_count; i++)
        pg_add(batch, storage_room, .account_id = pg_text(reports[0].account_id), .runtime = pg_text(runtimes[i]));
    for (size_t i = 0; i < count; i++)
        if (ask_held(batch, kinds, &reports[i])) call->held[call->held_count++] = i;
    arena_destroy(arena);
    pg_batch_submit(batch, JUDGE_MS, on_answered, call);
}
