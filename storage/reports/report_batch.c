#include "storage/reports/report_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_region.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/reports/report_kind.h"
#include "storage/reports/report_plan.h"

enum { DETAIL_BYTES = 160 };

// What is remembered of a report between planning and the answer.
struct batch_item {
    enum report_type type;
    int runtime;  // index of its step report_open
    int deciding; // index of the step whose answer decides; REPORT_NO_STEP: refused
    bool is_over_quota;
};

struct report_batch {
    struct batch_item *items;
    size_t count, runtime_count, blob_count;
    size_t settings; // statements before all others
    struct report_outcome *outcomes;
    char (*details)[DETAIL_BYTES]; // of refused ones
    bool has_skipped;
    char account_id[ID_ACCOUNT_BYTES];
    uint8_t (*written)[ID_SHA256_BYTES]; // manifests, blob_count
};

struct report_batch *report_batch_create(size_t count)
{
    struct report_batch *batch = mem_zalloc(sizeof *batch);
    batch->count = count;
    batch->items = mem_array(count, sizeof *batch->items);
    batch->outcomes = mem_array(count, sizeof *batch->outcomes);
    batch->details = mem_array(count, sizeof *batch->details);
    return batch;
}

void report_batch_destroy(struct report_batch *batch)
{
    if (!batch) return;
    mem_free(batch->items);
    mem_free(batch->outcomes);
    mem_free(batch->details);
    mem_free(batch->written);
    mem_free(batch);
}

// ---- planning ------------------------------------------------------------------------------------------------------

static int plan_snapshot(struct report_plan *plan, const struct report *report)
{
    const struct pg_param account = value_text(plan, report->account_id), runtime = value_text(plan, report->runtime);
    const struct pg_param epoch = value_int(plan, (int64_t)report->epoch);
    const struct pg_param sequence = value_int(plan, (int64_t)report->sequence);
    if (report->type == REPORT_SNAPSHOT_BEGIN) {
        const struct sql_report_snapshot_begin begin = {
            .account_id = account, .runtime = runtime, .epoch = epoch, .sequence = sequence};
        return report_plan_add(plan, report_snapshot_begin, &begin);
    }
    const struct sql_report_snapshot_end end = {
        .account_id = account,
        .runtime = runtime,
        .epoch = epoch,
        .sequence = sequence,
        .count = value_int(plan, (int64_t)report->count),
        .unread_kinds = value_text(plan, report->unread),
        .counter = value_text(plan, plan->counter),
    };
    int deciding = report_plan_add(plan, report_snapshot_end, &end);
    for (size_t i = 0; i < plan->kinds->count; i++)
        if (plan->kinds->kinds[i].plan_trim) plan->kinds->kinds[i].plan_trim(plan, report);
    return deciding;
}

static void plan_snapshot_refused(struct report_plan *plan, const struct report *report)
{
    const struct sql_report_snapshot_refused row = {
        ROW_KEY(plan, report),
        .epoch = value_int(plan, (int64_t)report->epoch),
        .sequence = value_int(plan, (int64_t)report->sequence),
    };
    report_plan_add(plan, report_snapshot_refused, &row);
}

static void plan_refused(struct report_plan *plan, const struct report_kind *kind, const struct report *report)
{
    plan_snapshot_refused(plan, report);
    if (kind->plan_refused) kind->plan_refused(plan, report);
}

static enum error_code plan_report(struct report_plan *plan, const struct report *report, int *out_deciding,
                                   struct error *err)
{
    if (report->type == REPORT_SNAPSHOT_BEGIN || report->type == REPORT_SNAPSHOT_END) {
        *out_deciding = plan_snapshot(plan, report);
        return ERROR_NONE;
    }
    const struct report_kind *kind = report_kinds_find(plan->kinds, report);
    if (report->type == REPORT_KEPT_OUT) {
        plan_refused(plan, kind, report);
        return error_set(err, ERROR_INVALID, "%.*s", STR_ARG(report->errors));
    }
    enum error_code code = report_check_contents(report, err);
    if (code == ERROR_NONE) code = kind->plan(plan, report, out_deciding, err);
    if (code != ERROR_NONE && report->type == REPORT_OBJECT && report->source == REPORT_FROM_TUNNEL)
        plan_refused(plan, kind, report);
    return code;
}

static void plan_over_quota(struct report_plan *plan, const struct report *report)
{
    if (report->source != REPORT_FROM_TUNNEL || report->type != REPORT_OBJECT) return;
    const struct report_kind *kind = report_kinds_find(plan->kinds, report);
    plan_snapshot_refused(plan, report);
    if (kind->plan_over_quota) kind->plan_over_quota(plan, report);
}

// The position row of one runtime: how far its reports of this batch go. And what it stores by them.
struct runtime_mark {
    struct str runtime, counter;
    const struct report *tunnel, *http; // the newest of each source
    struct report_growth growth;        // at most
    int64_t reserved_bytes, refused;    // of what does not grow; reports, for want of room
};

// Does it have room? What was planned for it is what it takes at most.
static bool is_admitted(const struct report *report, struct report_growth growth, const struct report_held *held,
                        struct report_room *room, struct runtime_mark *mark)
{
    int64_t plain_bytes = (int64_t)(report->manifest.len + report->desired_manifest.len + report->git_manifest.len);
    bool is_object = report->type == REPORT_OBJECT || report->type == REPORT_CLUSTER;
    int64_t rows = held->is_live ? 0 : 1;
    if (report->type == REPORT_SNAPSHOT_BEGIN || report->type == REPORT_SNAPSHOT_END) return true;
    if (report->type == REPORT_KUBERNETES_EVENT) return true; // no quota counts them
    if (report->type == REPORT_DELETED && held->is_there) return true;
    if (growth.bytes <= room->bytes && rows <= room->rows) {
        room->bytes -= growth.bytes;
        room->reserve -= growth.bytes;
        room->rows -= rows;
        mark->growth.bytes += growth.bytes;
        mark->growth.rows += rows;
        return true;
    }
    if (!is_object || !held->is_live || plain_bytes > held->plain_bytes || growth.bytes > room->reserve) return false;
    room->reserve -= growth.bytes;
    mark->reserved_bytes += growth.bytes;
    return true;
}

static void refuse_for_room(struct report_batch *batch, struct report_plan *plan, const struct report *report, size_t i,
                            const struct report_room *room, struct error *err)
{
    if (!batch->items[i].is_over_quota) return; // refused for another reason, which stays
    plan_over_quota(plan, report);
    error_set(err, ERROR_LIMITED,
              "storage quota of the %s: %" PRId64 " of %s bytes and %" PRId64 " of %s rows are left", room->scope,
              room->bytes > 0 ? room->bytes : 0, room->bytes_max, room->rows > 0 ? room->rows : 0, room->rows_max);
}

static void plan_item(struct report_batch *batch, struct report_plan *plan, const struct report *report, size_t i,
                      struct runtime_mark *mark, struct report_held *held, struct report_room *room)
{
    struct batch_item *item = &batch->items[i];
    struct error err = {0};
    struct report_plan_mark before = report_plan_mark(plan);
    item->type = report->type;
    item->deciding = REPORT_NO_STEP;
    plan->runtime = mark->runtime;
    plan->counter = mark->counter;
    enum error_code code = report_check_identity(report, &err);
    if (code == ERROR_NONE) code = plan_report(plan, report, &item->deciding, &err);
    struct report_growth growth = report_plan_growth(plan, before);
    if (!room && report->type != REPORT_KUBERNETES_EVENT) {
        mark->growth.bytes += growth.bytes;
        mark->growth.rows += growth.rows;
    } else if (room && !is_admitted(report, growth, held, room, mark)) {
        report_plan_drop(plan, before);
        item->is_over_quota = code == ERROR_NONE;
        mark->refused += item->is_over_quota;
        code = ERROR_LIMITED;
        refuse_for_room(batch, plan, report, i, room, &err);
    }
    if (code == ERROR_NONE) return;
    item->deciding = REPORT_NO_STEP;
    struct str text = str_first(str_c(err.text), DETAIL_BYTES - 1);
    memcpy(batch->details[i], text.at, text.len);
}

static int compare_marks(const void *a, const void *b)
{
    return str_compare(((const struct runtime_mark *)a)->runtime, ((const struct runtime_mark *)b)->runtime);
}

static bool is_later(const struct report *a, const struct report *b)
{
    return a->epoch > b->epoch || (a->epoch == b->epoch && a->sequence > b->sequence);
}

static void raise_mark(struct runtime_mark *mark, const struct report *report)
{
    struct error ignored;
    if (report_check_identity(report, &ignored) != ERROR_NONE) return;
    if (report->source == REPORT_FROM_TUNNEL && (!mark->tunnel || is_later(report, mark->tunnel)))
        mark->tunnel = report;
    if (report->source == REPORT_FROM_HTTP && (!mark->http || report->observed_at_ms > mark->http->observed_at_ms))
        mark->http = report;
}

// Names that no runtime can have are not asked for: text must be clean before it is sent.
static bool is_runtime_name(struct str name)
{
    return name.len > 0 && name.len <= 63 && str_is_utf8(name);
}

static struct runtime_mark *mark_runtimes(struct arena *arena, const struct report *reports, size_t count,
                                          size_t *out_count)
{
    struct runtime_mark *marks = arena_array(arena, count + 1, sizeof *marks);
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = found; // a batch has few runtimes, and the one before is the likely one
        while (k > 0 && !str_eq(marks[k - 1].runtime, reports[i].runtime))
            k--;
        if (k == 0)
            marks[k = found++].runtime = reports[i].runtime;
        else
            k--;
        raise_mark(&marks[k], &reports[i]);
    }
    qsort(marks, found, sizeof *marks, compare_marks);
    *out_count = found;
    return marks;
}

struct str *report_batch_runtimes(struct arena *arena, const struct report *reports, size_t count, size_t *out_count)
{
    struct runtime_mark *marks = mark_runtimes(arena, reports, count, out_count);
    struct str *names = arena_array(arena, *out_count + 1, sizeof *names);
    for (size_t i = 0; i < *out_count; i++)
        names[i] = is_runtime_name(marks[i].runtime) ? marks[i].runtime : STR("");
    return names;
}

static struct pg_param value_runtime(struct report_plan *plan, const struct runtime_mark *mark)
{
    return value_text(plan, is_runtime_name(mark->runtime) ? mark->runtime : STR(""));
}

static void add_open(struct pg_batch *batch, struct report_plan *plan, const struct runtime_mark *mark)
{
    pg_add(batch, report_open, .account_id = value_text(plan, plan->account_id), .runtime = value_runtime(plan, mark),
           .epoch = value_int(plan, mark->tunnel ? (int64_t)mark->tunnel->epoch : 0),
           .sequence = value_int(plan, mark->tunnel ? (int64_t)mark->tunnel->sequence : 0),
           .tunnel_observed_at = mark->tunnel ? value_observed_at(plan, mark->tunnel) : pg_null(),
           .http_observed_at = mark->http ? value_observed_at(plan, mark->http) : pg_null());
}

static void add_storage_open(struct pg_batch *batch, struct report_plan *plan, const struct runtime_mark *mark)
{
    pg_add(batch, storage_open, .account_id = value_text(plan, plan->account_id), .runtime = value_runtime(plan, mark),
           .counter = value_text(plan, mark->counter), .bytes = value_int(plan, mark->growth.bytes),
           .rows = value_int(plan, mark->growth.rows), .reserved_bytes = value_int(plan, mark->reserved_bytes));
}

static void add_storage_add(struct pg_batch *batch, struct report_plan *plan, const struct runtime_mark *mark)
{
    pg_add(batch, storage_add, .account_id = value_text(plan, plan->account_id), .runtime = value_runtime(plan, mark),
           .counter = value_text(plan, mark->counter), .refused = value_int(plan, mark->refused));
}

static int compare_blobs(const void *a, const void *b)
{
    return memcmp(((const struct manifest_blob *)a)->sha256, ((const struct manifest_blob *)b)->sha256,
                  ID_SHA256_BYTES);
}

static void add_blobs(struct report_batch *batch, struct pg_batch *to, struct report_plan *plan, struct str account_id)
{
    batch->written = mem_array(plan->blob_count + 1, sizeof *batch->written);
    if (plan->blob_count) qsort(plan->blobs, plan->blob_count, sizeof *plan->blobs, compare_blobs);
    for (size_t i = 0; i < plan->blob_count; i++) {
        const struct manifest_blob *blob = &plan->blobs[i];
        if (i > 0 && compare_blobs(blob, blob - 1) == 0) continue;
        pg_add(to, report_blob, .account_id = value_text(plan, account_id),
               .sha256 = pg_bytea(blob->sha256, sizeof blob->sha256), .encoding = value_int(plan, blob->encoding),
               .plain_bytes = value_int(plan, (int64_t)blob->plain_bytes),
               .content = value_bytes_or_null(blob->content), .runtime = value_text(plan, blob->runtime),
               .counter = value_text(plan, blob->counter));
        memcpy(batch->written[batch->blob_count++], blob->sha256, sizeof blob->sha256);
    }
}

static int find_runtime(const struct runtime_mark *marks, size_t count, struct str runtime)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(marks[i].runtime, runtime)) return (int)i;
    return 0; // each report's runtime is among them
}

void report_batch_fill(struct report_batch *batch, struct pg_batch *to, const struct report_kinds *kinds,
                       const struct report *reports, struct manifest_known *known, uint64_t server,
                       struct report_judgement *judgement)
{
    enum { REPORT_BYTES = 64 * 1024 };
    // Rows are made of bounded parts; blobs and history may be as long as what they are made of.
    size_t bytes = (size_t)16 * 1024 * 1024;
    for (size_t i = 0; i < batch->count; i++)
        bytes += REPORT_BYTES + 8 * report_text_bytes(&reports[i]);
    struct report_plan plan;
    report_plan_init(&plan, clock_wall_ms(), bytes);
    plan.kinds = kinds;
    plan.known = known;
    plan.server = server;
    plan.account_id = reports[0].account_id;
    snprintf(batch->account_id, sizeof batch->account_id, "%.*s", STR_ARG(plan.account_id));
    size_t runtime_count = 0;
    struct runtime_mark *marks = mark_runtimes(plan.arena, reports, batch->count, &runtime_count);
    for (size_t i = 0; i < runtime_count; i++)
        marks[i].counter = str_c(arena_printf(plan.arena, "app.stored%zu", i));
    for (size_t i = 0; i < batch->count; i++) {
        int runtime = batch->items[i].runtime = find_runtime(marks, runtime_count, reports[i].runtime);
        json_region_begin();
        plan_item(batch, &plan, &reports[i], i, &marks[runtime], judgement ? &judgement->held[i] : NULL,
                  judgement ? &judgement->rooms[runtime] : NULL);
        json_region_end();
    }
    pg_batch_add(to, &statement_report_by_key, NULL);
    batch->settings = 1;
    bool has_end = false;
    for (size_t i = 0; i < batch->count; i++)
        has_end |= reports[i].type == REPORT_SNAPSHOT_END;
    if (has_end) {
        pg_batch_slow(to);
        batch->settings++;
    }
    for (size_t i = 0; i < runtime_count; i++)
        add_open(to, &plan, &marks[i]);
    for (size_t i = 0; i < runtime_count; i++)
        add_storage_open(to, &plan, &marks[i]);
    batch->runtime_count = runtime_count;
    add_blobs(batch, to, &plan, reports[0].account_id);
    batch->has_skipped = plan.has_skipped;
    for (size_t i = 0; i < plan.step_count; i++)
        pg_batch_add(to, plan.steps[i].statement, plan.steps[i].params);
    report_plan_sort_late(&plan);
    for (size_t i = 0; i < plan.late_count; i++)
        pg_batch_add(to, plan.late[i].statement, plan.late[i].params);
    for (size_t i = 0; i < runtime_count; i++)
        add_storage_add(to, &plan, &marks[i]);
    report_plan_finish(&plan);
}

bool report_batch_has_skipped(const struct report_batch *batch)
{
    return batch->has_skipped;
}

bool report_batch_is_short(const struct report_batch *batch)
{
    bool is_short = false;
    for (size_t i = 0; i < batch->count; i++)
        is_short |= batch->items[i].is_over_quota;
    return is_short;
}

void report_batch_learn(const struct report_batch *batch, struct manifest_known *known, uint64_t server)
{
    for (size_t i = 0; i < batch->blob_count; i++)
        manifest_known_add(known, server, str_c(batch->account_id), batch->written[i]);
}

// ---- answers -------------------------------------------------------------------------------------------------------

static struct report_outcome outcome_of(const struct batch_item *item, const struct pg_rows *rows)
{
    struct str word = pg_rows_count(rows) ? pg_rows_get(rows, 0, 0) : STR_EMPTY;
    if (item->type == REPORT_SNAPSHOT_END) {
        if (str_eq(word, STR("resync")))
            return (struct report_outcome){REPORT_RESYNC, "the snapshot did not match what was received"};
        bool has_changed = str_eq(word, STR("matched")) && !str_eq(pg_rows_get(rows, 0, 1), STR("0"));
        return (struct report_outcome){has_changed ? REPORT_APPLIED : REPORT_UNCHANGED, ""};
    }
    return (struct report_outcome){str_eq(word, STR("t")) ? REPORT_APPLIED : REPORT_UNCHANGED, ""};
}

// results[i] belongs to the i-th statement of the fill.
const struct report_outcome *report_batch_outcomes(struct report_batch *batch, const struct pg_rows *results)
{
    size_t before = batch->settings + 2 * batch->runtime_count + batch->blob_count;
    for (size_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        if (item->is_over_quota)
            batch->outcomes[i] = (struct report_outcome){REPORT_OVER_QUOTA, batch->details[i]};
        else if (item->deciding == REPORT_NO_STEP)
            batch->outcomes[i] = (struct report_outcome){REPORT_REFUSED, batch->details[i]};
        else if (pg_rows_count(&results[batch->settings + (size_t)item->runtime]) == 0)
            batch->outcomes[i] = (struct report_outcome){REPORT_REFUSED, "the runtime does not exist"};
        else
            batch->outcomes[i] = outcome_of(item, &results[before + (size_t)item->deciding]);
    }
    return batch->outcomes;
}
