// external_identity_store: users as identity providers know them. One transaction finds or makes
// the user of an identity, brings role and teams up to date, and opens a session.
#ifndef CULVERT_API_ACCESS_EXTERNAL_IDENTITY_STORE_H
#define CULVERT_API_ACCESS_EXTERNAL_IDENTITY_STORE_H

#include "api/access/browser_session_store.h"

struct external_user {
    struct str identity_id; // 64 hex digits, of issuer and subject
    struct str provider, issuer, subject;
    struct str name, email;
    struct str link_email; // the user of this address is meant; empty: none
    bool creates;          // a user, if the identity has none yet
    bool is_read_only;     // when created
    bool manages_admins, is_admin;
    // JSON arrays of names: of the first the user is in the second alone.
    struct str managed_teams, teams;
};

// node: as browser_session_store_open(); session->credential_id is not looked at.
// ERROR_FORBIDDEN: the identity is of no user, or of one that is disabled.
void external_identity_store_sign_in(struct pg *pg, const char *account_id, const struct external_user *user,
                                     const struct browser_session_new *session, store_node_done on_done, void *arg);

#endif
