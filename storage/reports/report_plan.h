// report_plan: the statements that a batch of reports needs, before any of them is sent: reports are looked at one by
// one, their JSON is let go, and what is left is ordered (position rows first, then blobs, then rows, then commits and
// deployments, which runtimes share) so that two transactions never wait for each other. For report_store.c and the
// files that plan one kind of report. Memory is the plan's arena; one thread at a time.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_PLAN_H
#define CULVERT_STORAGE_REPORTS_REPORT_PLAN_H

#include <jansson.h>

#include "base/arena.h"
#include "storage/manifests/manifest_blob.h"
#include "storage/manifests/manifest_known.h"
#include "storage/pg/pg.h"
#include "storage/reports/report_store.h"

enum { REPORT_PARAMS_MAX = 60, REPORT_NO_STEP = -1 };

struct report_step {
    const struct pg_statement *statement;
    size_t count;
    struct pg_param *params;
    struct str place; // of late ones: among each other
    size_t number;    // and there
    size_t bytes;     // of the parameters, with what a row takes besides
    int stored;       // index of the parameter that says how many bytes the row counts for; -1: none
};

// What storing something takes at most.
struct report_growth {
    int64_t bytes, rows;
};

// What a batch may use that was refused for want of room (report_judge.h); as of a moment ago.
struct report_judgement {
    struct report_held {
        bool is_there, is_live;
        int64_t plain_bytes; // of its manifests
    } * held;                // one a report
    struct report_room {
        int64_t bytes, rows, reserve;     // what is left; reserve: for what does not grow
        char scope[8];                    // whose quota is the nearer one: "account", "runtime"
        char bytes_max[24], rows_max[24]; // which is how much, or "any"
    } * rooms;                            // one a runtime, in the order of their names
};

struct report_plan {
    struct arena *arena;
    int64_t now_ms;
    struct report_step *steps;
    size_t step_count, step_capacity;
    struct report_step *late; // behind all others; their answers are of no interest
    size_t late_count, late_capacity;
    struct manifest_blob *blobs; // unsorted, maybe repeated
    size_t blob_count, blob_capacity;
    struct manifest_packer *packer;
    struct manifest_known *known; // may be NULL
    uint64_t server;              // of what is known
    struct str account_id;
    bool has_skipped;                            // a blob that is known
    struct strbuf text;                          // JSON that is being written
    struct str commit_revision, commit_repo_url; // planned last
    struct str counter;                          // of what the report's runtime stores: the name of a setting
    struct str runtime;                          // of the report
};

// Values of one step, in the order of the statement's parameters.
struct report_params {
    struct report_plan *plan;
    struct pg_param list[REPORT_PARAMS_MAX];
    size_t count, bytes;
    int stored; // 1 + index of the parameter that params_stored() added
};

void report_plan_init(struct report_plan *plan, int64_t now_ms, size_t bytes_max);
void report_plan_finish(struct report_plan *plan);
// Returns the step's number.
int report_plan_add(struct report_plan *plan, const struct pg_statement *statement, const struct report_params *params);
// One that writes to rows that reports of other runtimes may write to, too: it goes behind all others, and before those
// of a greater place. The place is copied.
void report_plan_add_late(struct report_plan *plan, struct str place, const struct pg_statement *statement,
                          const struct report_params *params);
void report_plan_sort_late(struct report_plan *plan);
// The steps from `first` on write rows beside that of `step`, which counts them.
void report_plan_beside(struct report_plan *plan, int step, size_t first);

// How far a plan has come, and what was planned since.
struct report_plan_mark {
    size_t steps, late, blobs;
};
struct report_plan_mark report_plan_mark(const struct report_plan *plan);
struct report_growth report_plan_growth(const struct report_plan *plan, struct report_plan_mark since);
// Takes it back.
void report_plan_drop(struct report_plan *plan, struct report_plan_mark since);
// Stores the text as a blob, unless it is known; the view of its hash lives in the plan. Empty for an empty text.
// packed: the text as zstd packed it already, or empty; the memory is needed until the plan is finished.
struct str report_plan_blob(struct report_plan *plan, struct str text, struct str packed);

// Each copies what it is given, so that the JSON it came from may go.
void params_text(struct report_params *p, struct str s);                  // as it is, "" when empty
void params_text_or_null(struct report_params *p, struct str s);          // NULL when empty
void params_cut(struct report_params *p, struct str s, size_t bytes_max); // NULL when empty; cut at a character
void params_int(struct report_params *p, int64_t value);
void params_int_or_null(struct report_params *p, const json_t *value);
void params_bool(struct report_params *p, bool value);
void params_bytes_or_null(struct report_params *p, struct str s); // the memory must be the plan's
void params_time_ms(struct report_params *p, int64_t wall_ms);
void params_time_or_null(struct report_params *p, struct str rfc3339); // NULL also when it is no time
// At most bytes_max of it, cut between characters.
struct str report_cut(struct str s, size_t bytes_max);
// Compact JSON; NULL for NULL, and def when it is longer than bytes_max.
void params_json(struct report_params *p, const json_t *value, size_t bytes_max, const char *def);

// The keys and order of a report, as the statements of every kind begin and end.
void params_key(struct report_params *p, const struct report *report);
void params_order(struct report_params *p, const struct report *report);
// The object's entry in the digest tree; NULL for what came over HTTP, which no agent compares with.
void params_entry(struct report_params *p, const struct report *report);
// Two, the last ones of a statement that writes a row of which it counts what it takes: how many bytes, which
// report_plan_add() fills in, and the counter.
void params_stored(struct report_params *p);
// The object's resourceVersion; NULL when a tunnel told of it, and when it is none that can be compared.
void params_version(struct report_params *p, const struct report *report);

// ---- checks (report_check.c) ---------------------------------------------------------------------------------------

// The part that names the object; with it in order the report may be refused and still counted.
MUST_CHECK enum error_code report_check_identity(const struct report *report, struct error *err);
MUST_CHECK enum error_code report_check_contents(const struct report *report, struct error *err);

// ---- one kind each (report_application.c, report_resource.c, report_cluster.c) -------------------------------------

// Each plans its statements; *out_deciding is the step whose answer says what became of the report. ERROR_INVALID,
// ERROR_TOO_LARGE: the report is refused and nothing was planned.
MUST_CHECK enum error_code report_application_plan(struct report_plan *plan, const struct report *report,
                                                   int *out_deciding, struct error *err);
MUST_CHECK enum error_code report_resource_plan(struct report_plan *plan, const struct report *report,
                                                int *out_deciding, struct error *err);
MUST_CHECK enum error_code report_cluster_plan(struct report_plan *plan, const struct report *report, int *out_deciding,
                                               struct error *err);
bool report_is_application(const struct report *report);
bool report_is_cluster(const struct report *report);
// Keeps the row that a refused report is about from being taken for gone by the end of a snapshot.
void report_refused_plan(struct report_plan *plan, const struct report *report);
// The same for one that was refused for want of room, and that the next comparison of digests is to find.
void report_over_quota_plan(struct report_plan *plan, const struct report *report);

// The commits that a report over HTTP tells of (report_commit.c).
void report_commit_plan(struct report_plan *plan, const struct report *report, const json_t *manifest);

// The manifest as JSON, without what no plan looks at; NULL without one. The caller decrefs.
MUST_CHECK enum error_code report_decode(const struct report *report, json_t **out, struct error *err);
// String members only, without those that are too long or of no use.
json_t *report_string_map(const json_t *object, size_t value_bytes_max);
// What only reports over HTTP know: desired and Git manifests, commit, errors. For the statements *_enrich.
void report_enrich_params(struct report_params *p, const struct report *report);

#endif
