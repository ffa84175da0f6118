// scope: the permissions there are, and the names by which an API key is limited to some of them.
// Pure; any thread.
#ifndef CULVERT_API_ACCESS_SCOPE_H
#define CULVERT_API_ACCESS_SCOPE_H

#include "base/str.h"

enum permission { PERMISSION_READ, PERMISSION_WRITE, PERMISSION_CALL, PERMISSION_ADMINISTER, PERMISSION_OWN };

// The bit of a scope by its name: read, write, calls, admin. 0: there is none of this name.
unsigned scope_bit(struct str name);
// NULL: no scope gives this permission.
const char *scope_name(enum permission permission);

#endif
