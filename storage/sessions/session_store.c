#include "storage/sessions/session_store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void session_store_renew(struct pg *pg, struct str replica, uint64_t ttl_ms, struct str peer_address,
                         uint64_t deadline_ms, store_count_done on_done, void *arg)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, ttl_ms);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, replica_renew, .replica = pg_text(replica), .ttl_ms = pg_text(str_c(number)),
           .peer_address = pg_text(peer_address));
    store_submit_count_within(batch, 0, deadline_ms, on_done, arg);
}

// ---- what others ended
// -----------------------------------------------------------------------------------------------

struct ended_call {
    session_ended_done on_done;
    void *arg;
};

static void on_ended(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct ended_call *call = arg;
    if (err) {
        call->on_done(call->arg, err, NULL, 0, STR_EMPTY);
        mem_free(call);
        return;
    }
    size_t rows = (size_t)pg_rows_count(&results[0]), used = 0;
    struct session_ended *ended = mem_array(rows, sizeof *ended);
    for (size_t i = 1; i < rows; i++) {
        uint64_t epoch;
        if (parse_u64(pg_rows_get(&results[0], (int)i, 2), 1, INT64_MAX, &epoch, NULL) != ERROR_NONE) continue;
        ended[used++] = (struct session_ended){.account_id = pg_rows_get(&results[0], (int)i, 0),
                                               .runtime = pg_rows_get(&results[0], (int)i, 1),
                                               .epoch = epoch};
    }
    call->on_done(call->arg, NULL, ended, used, pg_rows_get(&results[0], 0, 0));
    mem_free(ended);
    mem_free(call);
}

void session_store_ended(struct pg *pg, struct str replica, struct str since, session_ended_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, sessions_ended, .replica = pg_text(replica), .since = pg_text(since));
    struct ended_call *call = mem_alloc(sizeof *call);
    *call = (struct ended_call){on_done, arg};
    pg_batch_submit(batch, STORE_READ_MS, on_ended, call);
}

// ---- who holds a runtime
// ---------------------------------------------------------------------------------------------

struct find_call {
    session_find_done on_done;
    void *arg;
};

static void on_found(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct find_call *call = arg;
    struct session_place place = {0};
    if (!err && pg_rows_count(&results[0]) > 0 &&
        parse_u64(pg_rows_get(&results[0], 0, 0), 1, INT64_MAX, &place.epoch, NULL) == ERROR_NONE) {
        place.found = true;
        place.replica = pg_rows_get(&results[0], 0, 1);
        place.peer_address = pg_rows_get(&results[0], 0, 2);
        place.live = str_eq(pg_rows_get(&results[0], 0, 3), STR("t"));
        if (parse_u64(pg_rows_get(&results[0], 0, 4), 0, INT64_MAX, &place.gone_ms, NULL) != ERROR_NONE)
            place.gone_ms = 0;
    }
    call->on_done(call->arg, err, err ? NULL : &place);
    mem_free(call);
}

void session_store_find(struct pg *pg, const struct runtime_key *key, uint64_t deadline_ms, session_find_done on_done,
                        void *arg)
{
    char account[64];
    snprintf(account, sizeof account, "%.*s", STR_ARG(key->account_id));
    struct pg_batch *batch = pg_batch_create(pg, account);
    pg_add(batch, session_find, .account_id = pg_text(key->account_id), .runtime = pg_text(key->runtime));
    struct find_call *call = mem_alloc(sizeof *call);
    *call = (struct find_call){on_done, arg};
    pg_batch_submit(batch, deadline_ms, on_found, call);
}

// ---- for people who look
// ---------------------------------------------------------------------------------------------

void session_store_measured(struct pg *pg, struct str measures, store_count_done on_done, void *arg)
{
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, tunnels_measured, .measures = pg_text(measures));
    store_submit_count(batch, 0, on_done, arg);
}

void session_store_list(struct pg *pg, struct str account_id, unsigned rows_max, store_node_done on_done, void *arg)
{
    char number[16];
    snprintf(number, sizeof number, "%u", rows_max);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, tunnels_list, .account_id = pg_text(account_id), .limit = pg_text(str_c(number)));
    store_submit_node(batch, 0, ERROR_NONE, "", on_done, arg);
}

// ---- at start
// --------------------------------------------------------------------------------------------------------

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
    pg_add(batch, replica_forget, .replica = pg_text(replica));
    pg_add(batch, replica_trim, .replica = pg_text(replica));
    struct forget_call *call = mem_alloc(sizeof *call);
    *call = (struct forget_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_forgotten, call);
}
