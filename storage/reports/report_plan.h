// report_plan: the statements that a batch of reports needs, before any of them is sent: reports
// are looked at one by one, their JSON is let go, and what is left is ordered (position rows first,
// then blobs, then rows, then commits and deployments, which runtimes share) so that two
// transactions never wait for each other. For report_batch.c and the files that plan one kind of
// report. Memory is the plan's arena; one thread at a time.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_PLAN_H
#define CULVERT_STORAGE_REPORTS_REPORT_PLAN_H

#include <jansson.h>

#include "base/arena.h"
#include "storage/manifests/manifest_blob.h"
#include "storage/manifests/manifest_known.h"
#include "storage/pg/pg.h"
#include "storage/reports/report.h"

enum { REPORT_NO_STEP = -1 };

struct report_step {
    const struct pg_statement *statement;
    struct pg_param *params;
    struct str place; // of late ones: among each other
    size_t number;    // and there
    size_t bytes;     // of the values, with what a row takes besides
    int stored;       // index of the value that says how many bytes the row counts for; -1: none
};

struct report_kinds;

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
    const struct report_kinds *kinds;
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

void report_plan_init(struct report_plan *plan, int64_t now_ms, size_t bytes_max);
void report_plan_finish(struct report_plan *plan);
// A statement of culvert_statements.h with its values, a struct sql_NAME. Returns the step's
// number.
#define report_plan_add(plan, name, values) report_plan_add_step(plan, &statement_##name, sql_##name(values))
int report_plan_add_step(struct report_plan *plan, const struct pg_statement *statement, const struct pg_param *params);
// One that writes to rows that reports of other runtimes may write to, too: it goes behind all others, and before those
// of a greater place. The place is copied.
#define report_plan_add_late(plan, place, name, values)                                                                \
    report_plan_add_late_step(plan, place, &statement_##name, sql_##name(values))
void report_plan_add_late_step(struct report_plan *plan, struct str place, const struct pg_statement *statement,
                               const struct pg_param *params);
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

// ---- values of a step ---------------------------------------------------------------------------

// Each copies what it is given, so that the JSON it came from may go.
struct pg_param value_text(struct report_plan *plan, struct str s);         // as it is, "" when empty
struct pg_param value_text_or_null(struct report_plan *plan, struct str s); // NULL when empty
struct pg_param value_cut(struct report_plan *plan, struct str s,
                          size_t bytes_max); // NULL when empty; cut at a character
struct pg_param value_int(struct report_plan *plan, int64_t value);
struct pg_param value_int_or_null(struct report_plan *plan, const json_t *value);
struct pg_param value_bool(bool value);
struct pg_param value_bytes_or_null(struct str s); // the memory must be the plan's
struct pg_param value_time_ms(struct report_plan *plan, int64_t wall_ms);
struct pg_param value_time_or_null(struct report_plan *plan, struct str rfc3339); // NULL also when it is no time
// At most bytes_max of it, cut between characters.
struct str report_cut(struct str s, size_t bytes_max);
// Compact JSON; NULL for NULL, and def when it is longer than bytes_max.
struct pg_param value_json(struct report_plan *plan, const json_t *value, size_t bytes_max, const char *def);
// A report's place in the order of all: 0 for what came over HTTP, and the time, not ahead of this
// clock.
struct pg_param value_epoch(struct report_plan *plan, const struct report *report);
struct pg_param value_sequence(struct report_plan *plan, const struct report *report);
struct pg_param value_observed_at(struct report_plan *plan, const struct report *report);
struct pg_param value_cluster(struct report_plan *plan, const struct report *report); // where none is given: in-cluster
// The object's entry in the digest tree; NULL for what came over HTTP, which no agent compares with.
struct pg_param value_content_hash(struct report_plan *plan, const struct report *report);
// The object's resourceVersion; NULL when a tunnel told of it, and when it is none that can be compared.
struct pg_param value_resource_version(struct report_plan *plan, const struct report *report);

// Initialisers of the values that the statements of many kinds have.
#define ROW_KEY(plan, report)                                                                                          \
    .account_id = value_text(plan, (report)->account_id), .runtime = value_text(plan, (report)->runtime)
#define ROW_ORDER(plan, report)                                                                                        \
    .epoch = value_epoch(plan, report), .sequence = value_sequence(plan, report),                                      \
    .observed_at = value_observed_at(plan, report)
// Of a row of which is counted what it takes: how many bytes, which report_plan_add() fills in, and
// the counter.
#define ROW_STORED(plan) .stored_bytes = pg_later(), .counter = pg_text((plan)->counter)
// What only reports over HTTP know of where an object comes from.
#define ROW_SOURCE(plan, report)                                                                                       \
    .source_repo_url = value_cut(plan, (report)->repo_url, REPORT_SOURCE_BYTES_MAX),                                   \
    .source_path = value_cut(plan, (report)->path, REPORT_SOURCE_BYTES_MAX),                                           \
    .source_revision = value_cut(plan, (report)->revision, REPORT_SOURCE_BYTES_MAX),                                   \
    .commit_message = value_cut(plan, (report)->commit_message, REPORT_SOURCE_BYTES_MAX),                              \
    .commit_author = value_cut(plan, (report)->commit_author, REPORT_SOURCE_BYTES_MAX),                                \
    .commit_date = value_cut(plan, (report)->commit_date, REPORT_SOURCE_BYTES_MAX)
enum { REPORT_SOURCE_BYTES_MAX = 4096 };

// ---- checks (report_check.c) ---------------------------------------------------------------------------------------

// The part that names the object; with it in order the report may be refused and still counted.
MUST_CHECK enum error_code report_check_identity(const struct report *report, struct error *err);
MUST_CHECK enum error_code report_check_contents(const struct report *report, struct error *err);

// ---- for the plans of kinds (report_kind.h) -----------------------------------------------------

// The manifest as JSON, without what no plan looks at; NULL without one. The caller decrefs.
MUST_CHECK enum error_code report_decode(const struct report *report, json_t **out, struct error *err);
// The same with all that is in it.
MUST_CHECK enum error_code report_decode_whole(const struct report *report, json_t **out, struct error *err);
// String members only, without those that are too long or of no use.
json_t *report_string_map(const json_t *object, size_t value_bytes_max);
// What else only reports over HTTP know: desired and Git manifests, and errors.
struct report_enrichment {
    struct pg_param desired_sha256, git_sha256, source_errors;
};
struct report_enrichment report_enrichment_of(struct report_plan *plan, const struct report *report);

#endif
