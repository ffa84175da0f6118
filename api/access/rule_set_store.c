#include "api/access/rule_set_store.h"

#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

struct load {
    rule_set_done on_done;
    void *arg;
};

static void on_rows(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    (void)count;
    struct load *load = arg;
    struct access_rules *rules = NULL;
    struct error bad;
    struct str name = STR_EMPTY;
    if (!err) {
        bool is_default_allow = str_eq(pg_rows_get(results, 0, 1), STR("ALLOW"));
        name = pg_rows_get(results, 0, 0);
        if (access_rules_create(is_default_allow, pg_rows_get(results, 0, 2), &rules, &bad) != ERROR_NONE) err = &bad;
    }
    load->on_done(load->arg, err, rules, name);
    mem_free(load);
}

void rule_set_store_load(struct pg *pg, struct str account_id, struct str user_id, rule_set_done on_done, void *arg)
{
    struct load *load = mem_alloc(sizeof *load);
    *load = (struct load){on_done, arg};
    AUTO_FREE char *account = mem_strndup(account_id.at, account_id.len);
    struct pg_batch *batch = pg_batch_create(pg, account);
    pg_add(batch, rule_set_load, .account_id = pg_text(account_id), .user_id = pg_text(user_id));
    pg_batch_submit(batch, STORE_READ_MS, on_rows, load);
}
