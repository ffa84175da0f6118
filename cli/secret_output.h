// secret_output: a credential that is shown once: to standard output, or to a file of mode 0600
// that must not be there yet.
#ifndef CULVERT_CLI_SECRET_OUTPUT_H
#define CULVERT_CLI_SECRET_OUTPUT_H

#include "base/error.h"

// Before the credential is made. path: of the file, or NULL. ERROR_INVALID: there is a file
// already.
MUST_CHECK enum error_code secret_output_check(const char *path, struct error *err);
// token NULL: the answer has none, ERROR_PROTOCOL. Where the file cannot be written it is printed.
MUST_CHECK enum error_code secret_output_give(const char *path, const char *token, struct error *err);

#endif
