#include "storage/operations/operation_delivery.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct claim_call {
    operation_due_done on_done;
    void *arg;
};

static uint64_t column(const struct pg_rows *rows, int row, int at)
{
    uint64_t value = 0;
    if (parse_u64(pg_rows_get(rows, row, at), 0, INT64_MAX, &value, NULL) != ERROR_NONE) return 0;
    return value;
}

static void on_claimed(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct claim_call *call = arg;
    struct operation_due due[OPERATION_DUE_MAX];
    size_t found = 0;
    (void)count;
    for (int row = 0; !err && row < pg_rows_count(&results[1]) && found < OPERATION_DUE_MAX; row++)
        due[found++] = (struct operation_due){.account_id = pg_rows_get(&results[1], row, 0),
                                              .runtime = pg_rows_get(&results[1], row, 1),
                                              .epoch = column(&results[1], row, 2),
                                              .operation_id = pg_rows_get(&results[1], row, 3),
                                              .attempt = column(&results[1], row, 4),
                                              .ttl_ms = column(&results[1], row, 5),
                                              .document = pg_rows_get(&results[1], row, 6)};
    call->on_done(call->arg, err, due, found);
    mem_free(call);
}

void operation_delivery_claim(struct pg *pg, const struct operation_claim *claim, operation_due_done on_done, void *arg)
{
    char resend[STORE_NUMBER_BYTES], grace[STORE_NUMBER_BYTES], run[STORE_NUMBER_BYTES], rows[STORE_NUMBER_BYTES];
    struct pg_param limit = store_number(claim->rows, rows);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, operation_expire, .grace_ms = store_number(claim->grace_ms, grace),
           .run_ms = store_number(claim->run_ms, run), .rows = limit);
    pg_add(batch, operation_claim, .replica = pg_text(str_c(claim->replica)),
           .resend_ms = store_number(claim->resend_ms, resend), .rows = limit);
    struct claim_call *call = mem_alloc(sizeof *call);
    *call = (struct claim_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_claimed, call);
}

void operation_delivery_note(struct pg *pg, const struct operation_note *note, store_count_done on_done, void *arg)
{
    char epoch[STORE_NUMBER_BYTES];
    struct pg_batch *batch = pg_batch_create(pg, note->account_id);
    pg_add(batch, operation_note, .account_id = pg_text(str_c(note->account_id)),
           .operation_id = pg_text(note->operation_id), .runtime = pg_text(note->runtime),
           .epoch = store_number(note->epoch, epoch), .state = pg_text(note->state), .code = pg_text(note->code),
           .message = pg_text(note->message));
    store_submit_count(batch, 0, on_done, arg);
}
