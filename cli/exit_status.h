// exit_status: how the command ended, for scripts. Documented in docs/cli.md.
#ifndef CULVERT_CLI_EXIT_STATUS_H
#define CULVERT_CLI_EXIT_STATUS_H

#include "base/error.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,      // the platform refused it, or it did not succeed
    EXIT_USAGE = 2,       // wrong arguments or configuration; nothing was sent
    EXIT_MISSING = 3,     // it does not exist, or the caller may not see it
    EXIT_DENIED = 4,      // no valid credential, or not permitted
    EXIT_TIMED_OUT = 5,   // a wait ended before its condition was met
    EXIT_UNREACHABLE = 6, // the platform could not be reached; may be tried again
};

enum exit_status exit_status_of(enum error_code code);

#endif
