#include "server/admin/database_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/access/audit_store.h"
#include "api/access/identity_store.h"
#include "api/access/runtime_token_store.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "migrations/migrations.h"
#include "server/admin/command_query.h"
#include "storage/pg/database_settings.h"

enum { PAGE_ROWS = 500, PROBLEM_BYTES = 512 };

struct database_check {
    const struct config *config;
    json_t *accounts, *problems;
    struct command_query *query; // that is asked now
    uint64_t tokens, unreadable, last_change;
    const char *account_id; // of the question; for pages the last one seen
};

__attribute__((format(printf, 2, 3))) static void add_problem(struct database_check *check, const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(check->problems, json_new_str(str_c(text)));
}

// Asks, and decodes the answer. False: it is a problem already.
static bool ask(struct database_check *check, command_query_fn fn, const char *what, json_t **out)
{
    struct command_query query;
    check->query = &query;
    *out = NULL;
    enum error_code code = command_query_run(check->config, &query, fn, check);
    if (code == ERROR_NONE && query.node && *query.node) code = json_decode(str_c(query.node), NULL, out, &query.err);
    if (code != ERROR_NONE) add_problem(check, "%s: %s", what, query.err.text);
    mem_free(query.node);
    return code == ERROR_NONE;
}

// ---- the schema ---------------------------------------------------------------------------------

static bool check_schema(struct database_check *check)
{
    char *conninfo;
    struct error err;
    if (config_secret(database_settings_of(check->config)->url, &conninfo, &err) != ERROR_NONE) {
        add_problem(check, "database.url: %s", err.text);
        return false;
    }
    enum error_code code = migrations_check(conninfo, &err);
    mem_free_secret(conninfo, strlen(conninfo));
    if (code != ERROR_NONE) add_problem(check, "schema: %s", err.text);
    return code == ERROR_NONE;
}

// ---- runtime tokens -----------------------------------------------------------------------------

static void on_tokens(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct database_check *check = arg;
    for (size_t i = 0; i < count; i++) {
        check->last_change = rows[i].change;
        if (rows[i].revoked || (rows[i].expires && rows[i].expires_in_ms <= 0)) continue;
        check->tokens++;
        check->unreadable += rows[i].unreadable;
    }
    command_query_on_count(check->query, err, count);
}

static void ask_tokens(struct command_query *query, void *arg)
{
    struct database_check *check = arg;
    runtime_token_store_changed(query->pg, check->last_change, PAGE_ROWS, on_tokens, check);
}

static void check_tokens(struct database_check *check)
{
    json_t *none;
    uint64_t before;
    do {
        before = check->last_change;
        if (!ask(check, ask_tokens, "runtime tokens", &none)) return;
    } while (check->last_change != before);
    if (check->unreadable)
        add_problem(check,
                    "runtime tokens: %llu of %llu were encrypted with another deployment key "
                    "(security.deployment_key_file); their agents would be refused",
                    (unsigned long long)check->unreadable, (unsigned long long)check->tokens);
}

// ---- accounts -----------------------------------------------------------------------------------

static void ask_summary(struct command_query *query, void *arg)
{
    struct database_check *check = arg;
    identity_store_account_summary(query->pg, check->account_id, command_query_on_node, query);
}

static void ask_audit(struct command_query *query, void *arg)
{
    struct database_check *check = arg;
    audit_store_verify(query->pg, check->account_id, command_query_on_node, query);
}

static void check_account(struct database_check *check, const char *name)
{
    json_t *account, *audit;
    if (!ask(check, ask_summary, name, &account)) return;
    json_object_set_new(account, "name", json_string(name));
    if (ask(check, ask_audit, name, &audit)) {
        const json_t *bad = json_object_get(audit, "firstBad");
        if (!json_is_null(bad))
            add_problem(check, "account %s: the audit log was altered, see entry %lld", name,
                        (long long)json_integer_value(bad));
        json_object_set_new(account, "audit", audit);
    }
    json_array_append_new(check->accounts, account);
}

static void ask_page(struct command_query *query, void *arg)
{
    struct database_check *check = arg;
    identity_store_account_page(query->pg, check->account_id, PAGE_ROWS, command_query_on_node, query);
}

static void check_accounts(struct database_check *check)
{
    char last[64] = "";
    for (bool has_more = true; has_more;) {
        json_t *page, *one;
        size_t i;
        check->account_id = last;
        if (!ask(check, ask_page, "accounts", &page)) return;
        json_array_foreach(page, i, one)
        {
            snprintf(last, sizeof last, "%.*s", STR_ARG(json_get_str(one, "id")));
            check->account_id = last;
            check_account(check, json_string_value(json_object_get(one, "name")));
        }
        has_more = json_array_size(page) == PAGE_ROWS;
        json_decref(page);
    }
}

bool database_check_run(const struct config *config)
{
    struct database_check check = {.config = config, .accounts = json_array(), .problems = json_array()};
    if (check_schema(&check)) {
        check_tokens(&check);
        check_accounts(&check);
    }
    size_t problems = json_array_size(check.problems);
    json_t *found = json_pack("{s:s, s:{s:I, s:I}, s:o, s:o}", "migration", migrations_all[migrations_count - 1].name,
                              "runtimeTokens", "valid", (json_int_t)check.tokens, "unreadable",
                              (json_int_t)check.unreadable, "accounts", check.accounts, "problems", check.problems);
    char *text = json_dumps(found, JSON_COMPACT);
    puts(text);
    mem_free(text);
    json_decref(found);
    if (problems) fprintf(stderr, "culvertd: %zu problems, see \"problems\"\n", problems);
    return problems == 0;
}
