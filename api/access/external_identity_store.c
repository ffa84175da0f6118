#include "api/access/external_identity_store.h"

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

static void add_user(struct pg_batch *batch, struct pg_param account_id, const struct external_user *user)
{
    char user_id[ID_ACCOUNT_BYTES];
    id_account(user_id);
    pg_add(batch, external_identity_lock, .account_id = account_id);
    pg_add(batch, external_identity_link, .account_id = account_id, .identity_id = pg_text(user->identity_id),
           .provider = pg_text(user->provider), .issuer = pg_text(user->issuer), .subject = pg_text(user->subject),
           .email = pg_text(user->link_email));
    pg_add(batch, external_identity_create, .account_id = account_id, .identity_id = pg_text(user->identity_id),
           .provider = pg_text(user->provider), .issuer = pg_text(user->issuer), .subject = pg_text(user->subject),
           .user_id = pg_text(str_c(user_id)), .name = pg_text(user->name), .email = pg_text(user->email),
           .creates = pg_bool(user->creates), .is_read_only = pg_bool(user->is_read_only));
    pg_add(batch, external_identity_set_role, .account_id = account_id, .identity_id = pg_text(user->identity_id),
           .manages_admins = pg_bool(user->manages_admins), .is_admin = pg_bool(user->is_admin));
    pg_add(batch, external_identity_leave_teams, .account_id = account_id, .identity_id = pg_text(user->identity_id),
           .managed_teams = pg_text(user->managed_teams), .teams = pg_text(user->teams));
    pg_add(batch, external_identity_join_teams, .account_id = account_id, .identity_id = pg_text(user->identity_id),
           .teams = pg_text(user->teams));
}

void external_identity_store_sign_in(struct pg *pg, const char *account_id, const struct external_user *user,
                                     const struct browser_session_new *session, store_node_done on_done, void *arg)
{
    struct browser_session_new opened = *session;
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    opened.credential_id = user->identity_id;
    add_user(batch, pg_text(str_c(account_id)), user);
    size_t answer = pg_batch_count(batch);
    browser_session_store_add(batch, account_id, &opened);
    store_submit_node(batch, answer, ERROR_FORBIDDEN, "the identity is of no user here, or of one that is disabled",
                      on_done, arg);
}
