// database: what tests against a real PostgreSQL share: a migrated database, a pool on a loop of the test's own, a new
// account for each test, and answers that can be waited for. Without CULVERT_TEST_DATABASE_URL (the owner) and
// CULVERT_TEST_DATABASE_APP_URL (culvertd's login) such tests say so and are skipped.
#ifndef CULVERT_TESTS_UNIT_STORAGE_DATABASE_H
#define CULVERT_TESTS_UNIT_STORAGE_DATABASE_H

#include "base/id.h"
#include "base/json/json.h"
#include "base/loop/loop.h"
#include "storage/reports/report_store.h"
#include "storage/sql/store.h"

struct database {
    struct loop *loop;
    struct pg *pg;
    char account[ID_ACCOUNT_BYTES];
    char account_name[64];
};

// For cmocka: group set-up (skips the group's tests by leaving *state NULL) and tear-down; each test begins with
// database_of(state), which skips it when there is no database.
int database_setup(void **state);
int database_teardown(void **state);
struct database *database_of(void **state); // with a new account

// The last answer of a call, copied. Wait with database_wait.
struct answer {
    struct database *database;
    bool is_done;
    enum error_code code;
    char text[512]; // of the error, or why there was no room for a report
    uint64_t count; // affected rows, epoch
    char *node;
    json_t *nodes; // of a slice
    char *cursors[64];
    size_t cursor_count;
    bool has_next, has_prev;
    struct report_outcome outcomes[512];
    size_t outcome_count;
};
void answer_init(struct answer *answer, struct database *database);
void answer_finish(struct answer *answer);
void answer_wait(struct answer *answer); // runs the loop; fails the test after 20 s
void answer_on_node(void *arg, const struct error *err, struct str node);
void answer_on_count(void *arg, const struct error *err, uint64_t count);
void answer_on_slice(void *arg, const struct error *err, const struct store_slice *slice);
void answer_on_reports(void *arg, const struct error *err, const struct report_outcome *outcomes, size_t count);

// Applies one report and returns how it ended; a failed transaction fails the test.
enum report_result database_apply(struct database *database, struct report report);
// What reports write, as all modules give it.
const struct report_kinds *database_report_kinds(void);

// Makes a runtime in the database's account and gives its id.
void database_make_runtime(struct database *database, const char *name, char out_id[ID_UUID_BYTES]);
// A session; returns its epoch.
uint64_t database_open_session(struct database *database, const char *runtime, const char *runtime_id,
                               const char *replica);
void database_close_session(struct database *database, const char *runtime, uint64_t epoch, const char *reason);
// As the owner with the account's rows in sight: the first column of the first row, or "". For looking behind.
void database_query(const char *account, const char *sql, char *out, size_t out_bytes);
// Removes all manifests that nothing names and that are an hour old, of all accounts.
void database_sweep_manifests(struct database *database);
void database_run_until(struct database *database, bool (*is_done)(void *arg), void *arg, unsigned seconds);

#endif
