#include "cli/exit_status.h"

enum exit_status exit_status_of(enum error_code code)
{
    switch (code) {
    case ERROR_NONE: return EXIT_DONE;
    case ERROR_INVALID: return EXIT_USAGE;
    case ERROR_NOT_FOUND: return EXIT_MISSING;
    case ERROR_UNAUTHENTICATED:
    case ERROR_FORBIDDEN: return EXIT_DENIED;
    case ERROR_TIMEOUT: return EXIT_TIMED_OUT;
    case ERROR_UNAVAILABLE:
    case ERROR_IO: return EXIT_UNREACHABLE;
    default: return EXIT_FAILED;
    }
}
