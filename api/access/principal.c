#include "api/access/principal.h"

#include <string.h>

#include "api/access/scope.h"

static bool copy_id(struct str from, char *to, size_t cap)
{
    if (from.len >= cap) return false;
    if (from.len) memcpy(to, from.at, from.len);
    to[from.len] = '\0';
    return true;
}

static void copy_name(struct str from, char *to, size_t cap)
{
    size_t len = from.len;
    if (len >= cap)
        for (len = cap - 1; len && ((unsigned char)from.at[len] & 0xc0) == 0x80;)
            len--;
    if (len) memcpy(to, from.at, len);
    to[len] = '\0';
}

// A scope that this version does not know permits nothing.
static void take_scopes(struct str scopes, struct api_principal *out)
{
    struct str rest = scopes, one;
    out->is_scoped = scopes.len > 0;
    while (rest.len) {
        str_cut(&rest, ' ', &one);
        out->scopes |= scope_bit(one);
    }
}

enum error_code api_principal_from(const struct principal *principal, struct api_principal *out, struct error *err)
{
    struct api_principal copy = {.kind = principal->kind, .method = principal->method, .role = principal->role};
    take_scopes(principal->scopes, &copy);
    bool fits = copy_id(principal->account_id, copy.account_id, sizeof copy.account_id) &&
                copy_id(principal->user_id, copy.user_id, sizeof copy.user_id) &&
                copy_id(principal->rule_set, copy.rule_set, sizeof copy.rule_set) &&
                copy_id(principal->runtime, copy.runtime, sizeof copy.runtime) &&
                copy_id(principal->runtime_id, copy.runtime_id, sizeof copy.runtime_id) &&
                copy_id(principal->token_id, copy.token_id, sizeof copy.token_id);
    if (!fits) return error_set(err, ERROR_INTERNAL, "principal id is too long");
    copy_name(principal->account_name, copy.account_name, sizeof copy.account_name);
    copy_name(principal->user_name, copy.user_name, sizeof copy.user_name);
    copy_name(principal->email, copy.email, sizeof copy.email);
    *out = copy;
    return ERROR_NONE;
}

uint64_t api_principal_rights(const struct api_principal *principal)
{
    return principal_rights(principal->role, principal->is_scoped, principal->scopes, str_c(principal->rule_set));
}
