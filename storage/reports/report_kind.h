// report_kind: what a report of a kind of object writes. Modules give these tables; the report
// transaction looks its reports up in them and knows no kind itself. Constant data; any thread.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_KIND_H
#define CULVERT_STORAGE_REPORTS_REPORT_KIND_H

#include "storage/reports/report_plan.h"

// How the row of an object is written.
struct report_kind {
    // Which reports are of this kind; NULL: those that are of no other.
    bool (*matches)(const struct report *report);
    // Plans the statements of a report; *out_deciding is the step whose answer is what became of
    // it. ERROR_INVALID, ERROR_TOO_LARGE: the report is refused and nothing was planned.
    enum error_code (*plan)(struct report_plan *plan, const struct report *report, int *out_deciding,
                            struct error *err);
    // Keeps the row that a refused report is about from being taken for gone by the end of a
    // snapshot. NULL: such rows do not end with a snapshot.
    void (*plan_refused)(struct report_plan *plan, const struct report *report);
    // The same for one that was refused for want of room, and that the next comparison of digests
    // is to find.
    void (*plan_over_quota)(struct report_plan *plan, const struct report *report);
    // Removes the rows that a snapshot did not name, at its end. May be NULL.
    void (*plan_trim)(struct report_plan *plan, const struct report *report);
    // Adds one statement: whether the object is there (a row: is it deleted?), and how many bytes
    // its manifests have in plain text. NULL: no quota counts them.
    void (*add_held)(struct pg_batch *batch, const struct report *report);
};

// What is written besides the row of the object, each by those who keep it. Members may be NULL.
struct report_beside {
    const char *group, *kind; // of the object; kind NULL: any object
    // Rows beside that of a resource. Each is written by a statement that follows the resource's,
    // and only if that row is this report's: what is older, repeated out of order or overtaken
    // within the batch writes nothing. sha256: of the manifest as report_plan_blob() gave it.
    void (*plan_row)(struct report_plan *plan, const struct report *report, const json_t *manifest, struct str sha256);
    bool is_counted_apart; // its row outlives the object's, which does not count it
    // What only a report over HTTP has besides the object; for_tunnel: one of an agent may, too.
    bool for_tunnel;
    void (*plan_http)(struct report_plan *plan, const struct report *report, const json_t *manifest);
};

struct report_kinds {
    const struct report_kind *kinds;
    size_t count;
    const struct report_beside *besides;
    size_t beside_count;
};

// Never NULL: one of the kinds takes what no other does.
const struct report_kind *report_kinds_find(const struct report_kinds *kinds, const struct report *report);
// For the plans of kinds, of every report. step: that of the object's row, which counts what the
// rows beside it take.
void report_kinds_plan_rows(struct report_plan *plan, const struct report *report, const json_t *manifest,
                            struct str sha256, int step);
void report_kinds_plan_http(struct report_plan *plan, const struct report *report, const json_t *manifest);

#endif
