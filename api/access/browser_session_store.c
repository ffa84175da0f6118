#include "api/access/browser_session_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void browser_session_store_add(struct pg_batch *batch, const char *account_id, const struct browser_session_new *opened)
{
    char idle[STORE_NUMBER_BYTES], life[STORE_NUMBER_BYTES], others[STORE_NUMBER_BYTES];
    pg_add(batch, browser_session_open, .account_id = pg_text(str_c(account_id)),
           .credential_id = pg_text(opened->credential_id), .method = pg_text(str_c(opened->method)),
           .session_id = pg_text(str_c(opened->session->id)),
           .secret_sha256 = pg_bytea(opened->session->secret_sha256, ID_SHA256_BYTES),
           .remote = pg_text(opened->remote), .user_agent = pg_text(opened->user_agent),
           .idle_ms = store_number(opened->idle_ms, idle), .life_ms = store_number(opened->life_ms, life),
           .others_max = store_number(opened->per_user_max - 1, others));
}

void browser_session_store_open(struct pg *pg, const char *account_id, const struct browser_session_new *opened,
                                store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    browser_session_store_add(batch, account_id, opened);
    store_submit_node(batch, 0, ERROR_UNAUTHENTICATED, "the credential is not valid", on_done, arg);
}

void browser_session_store_get(struct pg *pg, const char *account_id, struct str user_id, struct str session_id,
                               store_node_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, browser_session_get, .account_id = pg_text(str_c(account_id)), .user_id = pg_text(user_id),
           .session_id = pg_text(session_id));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the user does not exist", on_done, arg);
}

void browser_session_store_list(struct pg *pg, const char *account_id, struct str user_id, store_node_done on_done,
                                void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, browser_session_list, .account_id = pg_text(str_c(account_id)), .user_id = pg_text(user_id));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
}

void browser_session_store_end(struct pg *pg, const char *account_id, struct str user_id, struct str session_id,
                               store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, browser_session_end, .account_id = pg_text(str_c(account_id)), .user_id = pg_text(user_id),
           .session_id = pg_text(session_id));
    store_submit_count(batch, 0, on_done, arg);
}

void browser_session_store_end_by_name(struct pg *pg, const char *account_id, struct str user_name,
                                       store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, browser_session_end_by_name, .account_id = pg_text(str_c(account_id)),
           .user_name = pg_text(user_name));
    store_submit_count(batch, 0, on_done, arg);
}

void sign_in_link_store_create(struct pg *pg, const char *account_id, struct str user_name, const struct token *link,
                               uint64_t life_ms, store_node_done on_done, void *arg)
{
    char life[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, sign_in_link_create, .account_id = pg_text(str_c(account_id)), .user_name = pg_text(user_name),
           .link_id = pg_text(str_c(link->id)), .secret_sha256 = pg_bytea(link->secret_sha256, ID_SHA256_BYTES),
           .life_ms = store_number(life_ms, life));
    store_submit_node(batch, 0, ERROR_NOT_FOUND, "the user does not exist or is disabled", on_done, arg);
}

static void sweep_ended(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)keep;
    char most[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, browser_session_sweep, .limit = store_number(sweep->rows, most));
    store_submit_number(batch, 0, on_done, arg);
}

const struct sweep browser_session_store_sweeps[1] = {
    {"browser_sessions", SWEEP_ROUND, SWEEP_COUNTS_ROWS, .rows = 5000, .step = sweep_ended},
};
