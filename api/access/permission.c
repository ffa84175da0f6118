#include "api/access/permission.h"

static const struct {
    bool by_role[3];  // enum principal_role
    const char *role; // that is needed, for messages
} rules[] = {
    [PERMISSION_READ] = {{true, true, true}, "a user"},
    [PERMISSION_WRITE] = {{true, true, false}, "a user who is not read-only"},
    [PERMISSION_CALL] = {{true, true, false}, "a user who is not read-only"},
    [PERMISSION_ADMINISTER] = {{true, false, false}, "an admin"},
    [PERMISSION_OWN] = {{true, true, true}, "a user"},
};
enum error_code permission_check(const struct api_principal *who, enum permission needed, const char *what,
                                 struct error *err)
{
    if (who->kind == PRINCIPAL_RUNTIME) {
        if (needed == PERMISSION_READ || needed == PERMISSION_WRITE) return ERROR_NONE;
        return error_set(err, ERROR_FORBIDDEN, "%s requires %s of the account", what, rules[needed].role);
    }
    if (!rules[needed].by_role[who->role])
        return error_set(err, ERROR_FORBIDDEN, "%s requires %s of the account", what, rules[needed].role);
    if (who->is_scoped && !(who->scopes & 1u << needed))
        return error_set(err, ERROR_FORBIDDEN, "%s requires an API key %s%s", what,
                         scope_name(needed) ? "with the scope " : "without scopes",
                         scope_name(needed) ? scope_name(needed) : "");
    return ERROR_NONE;
}
