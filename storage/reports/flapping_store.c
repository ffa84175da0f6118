#include "storage/reports/flapping_store.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct flapping_call {
    store_count_done on_done;
    void *arg;
    size_t count; // of the statements that put
};

static void on_put(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct flapping_call *call = arg;
    uint64_t taken = 0;
    for (size_t i = 0; i < call->count && i < count; i++)
        taken += pg_rows_affected(&results[i]);
    call->on_done(call->arg, err, err ? 0 : taken);
    mem_free(call);
}

static bool is_first_of_runtime(const struct flapping_finding *findings, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (str_eq(findings[k].runtime, findings[i].runtime)) return false;
    return true;
}

void flapping_store_put(struct pg *pg, const char *account_id, const struct flapping_finding *findings, size_t count,
                        store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    struct pg_param account = pg_text(str_c(account_id));
    if (count > FLAPPING_FINDINGS_MAX) count = FLAPPING_FINDINGS_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct flapping_finding *each = &findings[i];
        char changes[24], since[CLOCK_RFC3339_BYTES];
        snprintf(changes, sizeof changes, "%llu", (unsigned long long)each->changes);
        clock_format_rfc3339(each->since_ms, since);
        pg_add(batch, flapping_put, .account_id = account, .runtime = pg_text(each->runtime),
               .api_group = pg_text(each->group), .kind = pg_text(each->kind), .namespace = pg_text(each->ns),
               .name = pg_text(each->name), .changes = pg_text(str_c(changes)), .first_at = pg_text(str_c(since)));
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_first_of_runtime(findings, i)) continue;
        pg_add(batch, flapping_trim, .account_id = account, .runtime = pg_text(findings[i].runtime));
    }
    struct flapping_call *call = mem_alloc(sizeof *call);
    *call = (struct flapping_call){on_done, arg, count};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_put, call);
}
