// browser_session_store: sessions of people in browsers, and the one-time links that open them. Of
// both the database has a hash alone.
#ifndef CULVERT_API_ACCESS_BROWSER_SESSION_STORE_H
#define CULVERT_API_ACCESS_BROWSER_SESSION_STORE_H

#include "base/token.h"
#include "storage/sql/sweep.h"

struct browser_session_new {
    const char *method;       // "link", "api_key" or "oidc"
    struct str credential_id; // of link, key or external identity, which is looked at again
    const struct token *session;
    struct str remote, user_agent;
    uint64_t idle_ms, life_ms; // it ends after so long without use; after so long in any case
    unsigned per_user_max;     // with this one; those used least recently end
};

// node: {user, account, session, displaced}. ERROR_UNAUTHENTICATED: the link was used meanwhile, or
// the user may no longer sign in.
void browser_session_store_open(struct pg *pg, const char *account_id, const struct browser_session_new *opened,
                                store_node_done on_done, void *arg);
// The same statement as a part of a batch.
void browser_session_store_add(struct pg_batch *batch, const char *account_id,
                               const struct browser_session_new *opened);
// node: {user, account, session}; session is null where session_id is of none of the user.
void browser_session_store_get(struct pg *pg, const char *account_id, struct str user_id, struct str session_id,
                               store_node_done on_done, void *arg);
// node: an array of the user's valid sessions, the last used first.
void browser_session_store_list(struct pg *pg, const char *account_id, struct str user_id, store_node_done on_done,
                                void *arg);
// session_id empty: all of the user. count: how many were valid.
void browser_session_store_end(struct pg *pg, const char *account_id, struct str user_id, struct str session_id,
                               store_count_done on_done, void *arg);
void browser_session_store_end_by_name(struct pg *pg, const char *account_id, struct str user_name,
                                       store_count_done on_done, void *arg);

// node: {id, expiresAt}. Links of the user that were valid are not any more. ERROR_NOT_FOUND: the
// user does not exist, or is disabled.
void sign_in_link_store_create(struct pg *pg, const char *account_id, struct str user_name, const struct token *link,
                               uint64_t life_ms, store_node_done on_done, void *arg);

extern const struct sweep browser_session_store_sweeps[1];

#endif
