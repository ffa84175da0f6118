// error: what went wrong, as a code for the program and a sentence for the person.
// A value owned by the caller; any thread. Fallible functions return the code, are must-check,
// and fill *err (which may be NULL) with the place and the reason. Outputs are written on success only.
#ifndef CULVERT_BASE_ERROR_H
#define CULVERT_BASE_ERROR_H

#include <stddef.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_AGAIN,           // not an error: more input or time is needed
    ERROR_INVALID,         // the input is malformed or means nothing here
    ERROR_TOO_LARGE,       // a stated limit was passed
    ERROR_NOT_FOUND,       //
    ERROR_CONFLICT,        // exists already, or a newer one won
    ERROR_UNAUTHENTICATED, // no credential, or not a valid one
    ERROR_FORBIDDEN,       // valid credential without the right
    ERROR_UNAVAILABLE,     // a dependency is away: try again later
    ERROR_LIMITED,         // the caller has more than its share: try again later
    ERROR_TIMEOUT,         // a deadline passed
    ERROR_IO,              // the operating system or the peer failed
    ERROR_PROTOCOL,        // the peer broke its protocol
    ERROR_CANCELLED,       // the caller went away
    ERROR_INTERNAL,        // a defect of ours
};

enum { ERROR_TEXT_BYTES = 512 };

struct error {
    enum error_code code;
    char text[ERROR_TEXT_BYTES];
};

#define MUST_CHECK __attribute__((warn_unused_result))

// Sets *err (NULL is fine) and returns code, so that `return error_set(...)` reads well.
enum error_code error_set(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Puts "prefix: " before the text that is there; returns err's code.
enum error_code error_prefix(struct error *err, const char *prefix);

// Constant lower-case word for logs and bodies, for example "too_large".
const char *error_code_name(enum error_code code);

#endif
