// device_login: a key of the person who allows it in a browser (RFC 8628, OAuth 2.0 Device
// Authorization Grant). One thread.
#ifndef CULVERT_CLI_DEVICE_LOGIN_H
#define CULVERT_CLI_DEVICE_LOGIN_H

#include "cli/context.h"

// Prints to stderr where to go, and waits there until the person has decided. *out_key is the
// caller's: mem_free_secret.
//   ERROR_UNAUTHENTICATED  denied, or not allowed in time
//   ERROR_NOT_FOUND        the platform does not offer it
MUST_CHECK enum error_code device_login(const struct context *context, char **out_key, struct error *err);

#endif
