#include "api/access/scope.h"

static const char *const names[] = {
    [PERMISSION_READ] = "read",        [PERMISSION_WRITE] = "write", [PERMISSION_CALL] = "calls",
    [PERMISSION_ADMINISTER] = "admin", [PERMISSION_OWN] = NULL,
};

unsigned scope_bit(struct str name)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && str_eq(name, str_c(names[i]))) return 1u << i;
    return 0;
}

const char *scope_name(enum permission permission)
{
    return names[permission];
}
