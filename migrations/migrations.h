// migrations: the database's schema as numbered SQL files, forward only, compiled into the binary (migrations/*.sql).
// Each is applied in a transaction of its own and recorded with its checksum. Blocking libpq: for `culvertd migrate`
// and for the check at start, never on a loop.
//
// The first line of a file says what binaries that do not know it may do: `-- older-binaries: work` (it only adds) or
// `-- older-binaries: stop`. That is how a rolling upgrade runs two versions side by side.
#ifndef CULVERT_MIGRATIONS_MIGRATIONS_H
#define CULVERT_MIGRATIONS_MIGRATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct migration {
    unsigned version;
    const char *name; // "0001_create_accounts"
    const char *sql;
};

extern const struct migration migrations_all[]; // in order
extern const size_t migrations_count;

// A migration that was applied just now.
typedef void (*migrations_log)(void *arg, unsigned version, const char *name);

// Applies what is missing, one caller at a time (advisory lock; waits for it up to a minute). log may be NULL.
// ERROR_UNAVAILABLE: no connection; ERROR_TIMEOUT: somebody else holds the lock; ERROR_CONFLICT: an applied migration
// differs from ours, or the database is newer than this binary works with; ERROR_INTERNAL: a migration failed (and left
// nothing behind).
MUST_CHECK enum error_code migrations_apply(const char *conninfo, migrations_log log, void *arg, struct error *err);

// Is the database as this binary wants it? ERROR_NOT_FOUND: migrations are missing (the text names the first);
// ERROR_CONFLICT as above.
MUST_CHECK enum error_code migrations_check(const char *conninfo, struct error *err);

// Pure: does this migration let binaries run that do not know it?
bool migration_lets_older_work(const struct migration *migration);

#endif
