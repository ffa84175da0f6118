// principal: who makes a request, by value: it may be kept as long as its owner likes. Any thread.
#ifndef CULVERT_API_ACCESS_PRINCIPAL_H
#define CULVERT_API_ACCESS_PRINCIPAL_H

#include <stdbool.h>

#include "api/access/identity_store.h"
#include "base/error.h"

// Texts are NUL-terminated; what does not apply is empty.
struct api_principal {
    enum principal_kind kind;
    enum principal_method method;
    enum principal_role role; // users
    bool is_scoped;           // may do no more than scopes, permission.h
    unsigned scopes;
    char account_id[64];
    char account_name[128];
    char user_id[64]; // users
    char user_name[128];
    char email[256];
    char runtime[128]; // runtimes
    char runtime_id[64];
    char token_id[32];
    // Names the rules that apply to it (api_auth_rules()); empty: none do.
    char rule_set[64];
};

// Copies. Names and the mail address are for reading and are cut at a character's edge; an id or a
// runtime's name that does not fit is ERROR_INTERNAL, because cut it would be another party's.
MUST_CHECK enum error_code api_principal_from(const struct principal *principal, struct api_principal *out,
                                              struct error *err);

// What a credential of this principal permits, to be compared with what it permits later.
uint64_t api_principal_rights(const struct api_principal *principal);

#endif
