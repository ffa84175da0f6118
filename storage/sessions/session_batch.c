#include "storage/sessions/session_batch.h"

#include <assert.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

enum { TEXT_BYTES_MAX = 1024 * 1024 };

int session_batch_compare(const char *account_a, struct str runtime_a, const char *account_b, struct str runtime_b)
{
    int by_account = strcmp(account_a, account_b);
    return by_account ? by_account : str_compare(runtime_a, runtime_b);
}

static void add_member(struct strbuf *text, const char *name, struct str value)
{
    strbuf_addf(text, "%s\"%s\":", name[0] == 'r' ? "{" : ",", name);
    strbuf_add_json(text, value);
}

// ---- opening -------------------------------------------------------------------------------------------------------

// A run of sessions of one account, and which of the transaction's answers has its epochs.
struct open_group {
    size_t first, count, answer;
};

struct open_call {
    session_batch_opened on_done;
    void *arg;
    size_t count, group_count;
    struct open_group groups[SESSION_BATCH_MAX];
    struct session_grant grants[SESSION_BATCH_MAX];
    char *names[SESSION_BATCH_MAX]; // runtimes, owned
};

// Both sides are in order of names, but for those that PostgreSQL did not find.
static void take_epochs(struct open_call *call, const struct open_group *group, const struct pg_rows *rows)
{
    size_t at = group->first, end = group->first + group->count;
    for (int row = 0; row < pg_rows_count(rows); row++) {
        struct str name = pg_rows_get(rows, row, 0);
        size_t tried = 0;
        while (tried < group->count && !str_eq(name, str_c(call->names[at]))) {
            tried++;
            if (++at == end) at = group->first;
        }
        uint64_t epoch;
        if (tried < group->count && parse_u64(pg_rows_get(rows, row, 1), 1, INT64_MAX, &epoch, NULL) == ERROR_NONE)
            call->grants[at] =
                (struct session_grant){.epoch = epoch, .stands_by = str_eq(pg_rows_get(rows, row, 2), STR("t"))};
    }
}

static void on_open(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct open_call *call = arg;
    for (size_t i = 0; i < call->group_count && !err; i++)
        take_epochs(call, &call->groups[i], &results[call->groups[i].answer]);
    call->on_done(call->arg, err, err ? NULL : call->grants);
    for (size_t i = 0; i < call->count; i++)
        mem_free(call->names[i]);
    mem_free(call);
}

static void add_session(struct strbuf *text, const struct session_new *session)
{
    strbuf_add_c(text, text->len > 1 ? "," : "");
    add_member(text, "r", session->runtime);
    add_member(text, "i", session->runtime_id);
    add_member(text, "s", session->session_id);
    add_member(text, "n", session->instance_id);
    add_member(text, "b", session->boot_id);
    add_member(text, "v", session->agent_version);
    add_member(text, "a", session->remote);
    if (session->waits) strbuf_add_c(text, ",\"w\":true");
    strbuf_add_byte(text, '}');
}

static void add_group(struct pg_batch *batch, struct open_call *call, struct str replica,
                      const struct session_new *sessions, struct open_group group)
{
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    strbuf_add_byte(&text, '[');
    for (size_t i = group.first; i < group.first + group.count; i++)
        add_session(&text, &sessions[i]);
    strbuf_add_byte(&text, ']');
    assert(!text.overflow); // a listener lets no such heads in
    if (group.first) pg_batch_switch_account(batch, sessions[group.first].account_id);
    const struct pg_param account = pg_text(str_c(sessions[group.first].account_id));
    const struct pg_param list = pg_text(strbuf_str(&text));
    pg_add(batch, sessions_lock, .account_id = account, .sessions = list);
    group.answer = pg_batch_count(batch);
    pg_add(batch, sessions_epochs, .account_id = account, .sessions = list);
    pg_add(batch, sessions_supersede, .account_id = account, .sessions = list);
    pg_add(batch, sessions_open, .account_id = account, .sessions = list, .replica = pg_text(replica));
    strbuf_finish(&text);
    call->groups[call->group_count++] = group;
}

void session_batch_open(struct pg *pg, struct str replica, const struct session_new *sessions, size_t count,
                        session_batch_opened on_done, void *arg)
{
    assert(count >= 1 && count <= SESSION_BATCH_MAX);
    struct open_call *call = mem_zalloc(sizeof *call);
    *call = (struct open_call){.on_done = on_done, .arg = arg, .count = count};
    struct pg_batch *batch = pg_batch_create(pg, sessions[0].account_id);
    pg_batch_add(batch, &statement_sessions_by_key, NULL);
    struct open_group group = {.first = 0};
    for (size_t i = 0; i < count; i++) {
        call->names[i] = mem_strndup(sessions[i].runtime.at, sessions[i].runtime.len);
        group.count++;
        if (i + 1 < count && strcmp(sessions[i].account_id, sessions[i + 1].account_id) == 0) continue;
        add_group(batch, call, replica, sessions, group);
        group = (struct open_group){.first = i + 1};
    }
    pg_add(batch, sessions_lease, .replica = pg_text(replica));
    pg_batch_submit(batch, STORE_CHANGE_MS, on_open, call);
}

// ---- closing -------------------------------------------------------------------------------------------------------

struct close_call {
    store_count_done on_done;
    void *arg;
};

static void on_close(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)results;
    (void)count;
    struct close_call *call = arg;
    call->on_done(call->arg, err, 0);
    mem_free(call);
}

void session_batch_close(struct pg *pg, const struct session_over *sessions, size_t count, store_count_done on_done,
                         void *arg)
{
    assert(count >= 1 && count <= SESSION_BATCH_MAX);
    struct pg_batch *batch = pg_batch_create(pg, sessions[0].account_id);
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    pg_batch_add(batch, &statement_sessions_by_key, NULL);
    for (size_t i = 0, first = 0; i < count; i++) {
        strbuf_add_byte(&text, i == first ? '[' : ',');
        add_member(&text, "r", sessions[i].runtime);
        strbuf_addf(&text, ",\"e\":%llu", (unsigned long long)sessions[i].epoch);
        strbuf_addf(&text, ",\"h\":%llu", (unsigned long long)sessions[i].silent_ms);
        add_member(&text, "c", sessions[i].reason);
        add_member(&text, "k", sessions[i].cause);
        strbuf_add_byte(&text, '}');
        if (i + 1 < count && strcmp(sessions[i].account_id, sessions[i + 1].account_id) == 0) continue;
        strbuf_add_byte(&text, ']');
        assert(!text.overflow);
        if (first) pg_batch_switch_account(batch, sessions[i].account_id);
        pg_add(batch, sessions_close, .account_id = pg_text(str_c(sessions[i].account_id)),
               .sessions = pg_text(strbuf_str(&text)));
        strbuf_clear(&text);
        first = i + 1;
    }
    strbuf_finish(&text);
    struct close_call *call = mem_alloc(sizeof *call);
    *call = (struct close_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_close, call);
}

// ---- lagging -------------------------------------------------------------------------------------------------------

void session_batch_lag(struct pg *pg, const struct session_lag *lags, size_t count, store_count_done on_done, void *arg)
{
    assert(count >= 1 && count <= SESSION_BATCH_MAX);
    struct pg_batch *batch = pg_batch_create(pg, lags[0].account_id);
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    pg_batch_add(batch, &statement_sessions_by_key, NULL);
    for (size_t i = 0, first = 0; i < count; i++) {
        strbuf_add_byte(&text, i == first ? '[' : ',');
        add_member(&text, "r", lags[i].runtime);
        strbuf_addf(&text, ",\"e\":%llu,\"b\":%llu,\"u\":%llu}", (unsigned long long)lags[i].epoch,
                    (unsigned long long)lags[i].behind_ms, (unsigned long long)lags[i].blind_ms);
        if (i + 1 < count && strcmp(lags[i].account_id, lags[i + 1].account_id) == 0) continue;
        strbuf_add_byte(&text, ']');
        assert(!text.overflow);
        if (first) pg_batch_switch_account(batch, lags[i].account_id);
        pg_add(batch, sessions_lag, .account_id = pg_text(str_c(lags[i].account_id)),
               .sessions = pg_text(strbuf_str(&text)));
        strbuf_clear(&text);
        first = i + 1;
    }
    strbuf_finish(&text);
    struct close_call *call = mem_alloc(sizeof *call);
    *call = (struct close_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_close, call);
}
