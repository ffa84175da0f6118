#include "storage/session_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/store_call.h"

struct open_call {
    session_opened on_done;
    void *arg;
};

static void on_open(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct open_call *call = arg;
    struct error gone;
    uint64_t epoch = 0;
    if (!err && (pg_rows_count(&results[0]) == 0 ||
                 parse_u64(pg_rows_get(&results[0], 0, 0), 1, INT64_MAX, &epoch, NULL) != ERROR_NONE)) {
        error_set(&gone, ERROR_NOT_FOUND, "the runtime was deleted");
        err = &gone;
    }
    call->on_done(call->arg, err, epoch);
    mem_free(call);
}

void session_store_open(struct pg *pg, const char *account_id, const struct session_new *session,
                        session_opened on_done, void *arg)
{
    struct pg_param params[] = {
        pg_text(str_c(account_id)),   pg_text(session->runtime),       pg_text(session->runtime_id),
        pg_text(session->session_id), pg_text(session->replica),       pg_text(session->instance_id),
        pg_text(session->boot_id),    pg_text(session->agent_version), pg_text(session->remote),
    };
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(batch, &statement_session_epoch, 3, params);
    pg_batch_add(batch, &statement_session_supersede, 3, params);
    pg_batch_add(batch, &statement_session_lease, 1, &params[4]);
    pg_batch_add(batch, &statement_session_open, 9, params);
    pg_batch_add(batch, &statement_session_first, 3, params);
    pg_batch_add(batch, &statement_session_trim, 2, params);
    struct open_call *call = mem_alloc(sizeof *call);
    *call = (struct open_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_open, call);
}

void session_store_close(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, struct str reason,
                         store_count_done on_done, void *arg)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, epoch);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_batch_add(
        batch, &statement_session_close, 4,
        (struct pg_param[]){pg_text(str_c(account_id)), pg_text(runtime), pg_text(str_c(number)), pg_text(reason)});
    store_submit_count(batch, 0, on_done, arg);
}

void session_store_renew(struct pg *pg, struct str replica, uint64_t ttl_ms, store_count_done on_done, void *arg)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, ttl_ms);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_replica_renew, 2, (struct pg_param[]){pg_text(replica), pg_text(str_c(number))});
    store_submit_count(batch, 0, on_done, arg);
}

struct forget_call {
    store_count_done on_done;
    void *arg;
};

static void on_forgotten(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct forget_call *call = arg;
    uint64_t closed = 0;
    if (!err && parse_u64(pg_rows_get(&results[0], 0, 0), 0, INT64_MAX, &closed, NULL) != ERROR_NONE) closed = 0;
    call->on_done(call->arg, err, closed);
    mem_free(call);
}

void session_store_forget_replica(struct pg *pg, struct str replica, store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_batch_add(batch, &statement_replica_forget, 1, (struct pg_param[]){pg_text(replica)});
    pg_batch_add(batch, &statement_replica_trim, 1, (struct pg_param[]){pg_text(replica)});
    struct forget_call *call = mem_alloc(sizeof *call);
    *call = (struct forget_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_forgotten, call);
}
