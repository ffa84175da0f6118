#include "storage/session_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/store_call.h"

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
