#include "storage/reports/snapshot_verdict_store.h"

#include <stdio.h>

#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

enum { NUMBER_BYTES = 24 };

struct verdict_call {
    snapshot_verdict_done on_done;
    void *arg;
};

static struct str number(uint64_t value, char out[NUMBER_BYTES])
{
    return str_of(out, (size_t)snprintf(out, NUMBER_BYTES, "%llu", (unsigned long long)value));
}

void snapshot_verdict_put(struct pg *pg, const struct report *end, bool needs_resync, store_count_done on_done,
                          void *arg)
{
    AUTO_FREE char *account = mem_strndup(end->account_id.at, end->account_id.len);
    struct pg_batch *batch = pg_batch_create(pg, account);
    char epoch[NUMBER_BYTES], sequence[NUMBER_BYTES];
    pg_add(batch, snapshot_verdict_put, .account_id = pg_text(end->account_id), .runtime = pg_text(end->runtime),
           .epoch = pg_text(number(end->epoch, epoch)), .sequence = pg_text(number(end->sequence, sequence)),
           .needs_resync = pg_bool(needs_resync));
    store_submit_count(batch, 0, on_done, arg);
}

static void on_found(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct verdict_call *call = arg;
    enum snapshot_verdict verdict = SNAPSHOT_UNDECIDED;
    (void)count;
    if (!err && pg_rows_count(&results[0]))
        verdict = str_eq(pg_rows_get(&results[0], 0, 0), STR("t")) ? SNAPSHOT_NEEDS_RESYNC : SNAPSHOT_MATCHED;
    call->on_done(call->arg, err, verdict);
    mem_free(call);
}

void snapshot_verdict_find(struct pg *pg, const struct runtime_key *key, uint64_t epoch, uint64_t sequence,
                           snapshot_verdict_done on_done, void *arg)
{
    AUTO_FREE char *account = mem_strndup(key->account_id.at, key->account_id.len);
    struct pg_batch *batch = pg_batch_create(pg, account);
    char epoch_text[NUMBER_BYTES], sequence_text[NUMBER_BYTES];
    struct verdict_call *call = mem_alloc(sizeof *call);
    *call = (struct verdict_call){on_done, arg};
    pg_add(batch, snapshot_verdict_find, .account_id = pg_text(key->account_id), .runtime = pg_text(key->runtime),
           .epoch = pg_text(number(epoch, epoch_text)), .sequence = pg_text(number(sequence, sequence_text)));
    pg_batch_submit(batch, STORE_READ_MS, on_found, call);
}
