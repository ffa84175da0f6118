// runtime_error_store: errors that a runtime told of itself: its installer, and the event sources in it. A text that is
// told again is the same error, seen again.
#ifndef CULVERT_MODULES_RUNTIMES_RUNTIME_ERROR_STORE_H
#define CULVERT_MODULES_RUNTIMES_RUNTIME_ERROR_STORE_H

#include "storage/sql/store.h"

enum { RUNTIME_ERROR_MESSAGE_BYTES_MAX = 8 * 1024, RUNTIME_ERRORS_MAX = 100 };
enum runtime_error_origin { RUNTIME_ERROR_EVENT_SOURCE, RUNTIME_ERROR_INSTALLATION };

struct runtime_error {
    bool is_warning;
    struct str message; // UTF-8 without NUL; what is longer than the maximum is cut
};

// At most RUNTIME_ERRORS_MAX. count: the errors that were taken; ERROR_NOT_FOUND: there is no such runtime.
void runtime_error_store_put(struct pg *pg, const char *account_id, struct str runtime,
                             enum runtime_error_origin origin, const struct runtime_error *errors, size_t count,
                             store_count_done on_done, void *arg);

#endif
