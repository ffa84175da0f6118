#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum error_code error_set(struct error *err, enum error_code code, const char *format, ...)
{
    if (!err) return code;
    err->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

enum error_code error_prefix(struct error *err, const char *prefix)
{
    if (!err) return ERROR_INTERNAL;
    char rest[ERROR_TEXT_BYTES];
    memcpy(rest, err->text, sizeof rest);
    rest[sizeof rest - 1] = '\0';
    int n = snprintf(err->text, sizeof err->text, "%.200s: ", prefix);
    size_t at = n < 0 ? 0 : (size_t)n;
    size_t room = sizeof err->text - at - 1;
    size_t len = strnlen(rest, sizeof rest);
    if (len > room) len = room;
    memcpy(err->text + at, rest, len);
    err->text[at + len] = '\0';
    return err->code;
}

const char *error_code_name(enum error_code code)
{
    switch (code) {
    case ERROR_NONE: return "none";
    case ERROR_AGAIN: return "again";
    case ERROR_INVALID: return "invalid";
    case ERROR_TOO_LARGE: return "too_large";
    case ERROR_NOT_FOUND: return "not_found";
    case ERROR_CONFLICT: return "conflict";
    case ERROR_UNAUTHENTICATED: return "unauthenticated";
    case ERROR_FORBIDDEN: return "forbidden";
    case ERROR_UNAVAILABLE: return "unavailable";
    case ERROR_LIMITED: return "limited";
    case ERROR_TIMEOUT: return "timeout";
    case ERROR_IO: return "io";
    case ERROR_PROTOCOL: return "protocol";
    case ERROR_CANCELLED: return "cancelled";
    case ERROR_INTERNAL: return "internal";
    }
    return "unknown";
}
