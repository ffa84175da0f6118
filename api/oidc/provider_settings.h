// provider_settings: one identity provider of the file sign_in.providers_file: who it is, and what
// its users become here. Read-only once loaded; any thread.
#ifndef CULVERT_API_OIDC_PROVIDER_SETTINGS_H
#define CULVERT_API_OIDC_PROVIDER_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

enum { PROVIDERS_MAX = 32, PROVIDER_ID_BYTES_MAX = 40 };

// Texts are NUL-terminated and never NULL, but for client_secret. client_id is empty where nobody
// signs in, and tokens are exchanged alone.
struct provider_settings {
    char *id, *title, *issuer, *client_id, *account, *scope, *groups_claim;
    char *client_secret;     // NULL: the client is public
    bool secret_in_body;     // client_secret_post; else client_secret_basic
    unsigned algorithms;     // enum jwk_algorithm, or-ed
    bool creates_users;      // of whom Culvert has none yet
    bool links_by_email;     // a verified e-mail address finds the user that exists
    bool is_read_only;       // new users are
    json_t *teams;           // object: group -> team
    json_t *admin_groups;    // array; empty: admins are not the provider's concern
    json_t *required_claims; // object: claim -> text or list of texts
    char *exchange_audience; // of tokens of CI jobs
    json_t *exchange_rules;  // array of {claims, user, scopes}; empty: none is exchanged
};

struct provider_list {
    size_t count;
    struct provider_settings items[PROVIDERS_MAX];
};

// Reads and checks the whole file: every complaint is a line of problems. ERROR_INVALID: there are
// some; out is empty then.
MUST_CHECK enum error_code provider_list_load(const char *file, struct provider_list *out, struct strbuf *problems);
void provider_list_finish(struct provider_list *list); // overwrites secrets

#endif
