#include "server/admin/command_audit.h"

#include <stdio.h>
#include <string.h>

#include "api/access/audit_store.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "server/admin/command_status.h"
#include "server/admin/command_subject.h"

struct subject {
    struct command_subject of;
    uint64_t after; // the number of an entry
};

static void ask_verify_audit(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    audit_store_verify(query->pg, subject->of.account_id, command_query_on_node, query);
}

int command_verify_audit(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin verify-audit --account ACCOUNT");
    struct subject subject = {.of.account = str_c(account)};
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    json_t *found = NULL;
    if (command_query_run(config, &query, ask_verify_audit, &subject) != ERROR_NONE) return command_failed(&query.err);
    puts(query.node);
    if (json_decode(str_c(query.node), NULL, &found, NULL) != ERROR_NONE ||
        !json_is_null(json_object_get(found, "firstBad"))) {
        fprintf(stderr, "culvertd: the audit log of account \"%s\" was altered, see firstBad\n", account);
        status = EXIT_FAILED;
    }
    json_decref(found);
    mem_free(query.node);
    return status;
}

static void ask_export_audit(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    audit_store_export(query->pg, subject->of.account_id, subject->after, command_query_on_node, query);
}

// Page by page, so that neither the server nor this command has to hold it all.
int command_export_audit(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin export-audit --account ACCOUNT");
    struct subject subject = {.of.account = str_c(account)};
    int status = command_subject_resolve(config, &subject.of);
    while (status == EXIT_DONE) {
        struct command_query query;
        json_t *page = NULL;
        const struct json_limits limits = {.bytes_max = 256u * 1024 * 1024};
        if (command_query_run(config, &query, ask_export_audit, &subject) != ERROR_NONE)
            return command_failed(&query.err);
        enum error_code code = json_decode(str_c(query.node), &limits, &page, &query.err);
        mem_free(query.node);
        if (code != ERROR_NONE) return command_failed(&query.err);
        uint64_t last = (uint64_t)json_integer_value(json_object_get(page, "last"));
        if (last) printf("%.*s\n", STR_ARG(json_get_str(page, "lines")));
        json_decref(page);
        if (!last) break;
        subject.after = last;
    }
    return status;
}
