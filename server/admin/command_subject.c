#include "server/admin/command_subject.h"

#include <stdio.h>
#include <string.h>

#include "api/access/identity_store.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "server/admin/command_status.h"

void command_subject_ask(struct command_query *query, void *arg)
{
    struct command_subject *subject = arg;
    identity_store_find_account(query->pg, subject->account, command_query_on_node, query);
}

int command_subject_resolve(const struct config *config, struct command_subject *subject)
{
    struct command_query query;
    if (command_query_run(config, &query, command_subject_ask, subject) != ERROR_NONE)
        return command_failed(&query.err);
    json_t *node = NULL;
    int status = EXIT_DONE;
    if (!query.node[0] || json_decode(str_c(query.node), NULL, &node, NULL) != ERROR_NONE) {
        fprintf(stderr, "culvertd: account \"%.*s\" does not exist\n", STR_ARG(subject->account));
        status = EXIT_STATE;
    } else {
        snprintf(subject->account_id, sizeof subject->account_id, "%.*s", STR_ARG(json_get_str(node, "id")));
    }
    json_decref(node);
    mem_free(query.node);
    return status;
}

int command_subject_print(const struct config *config, struct command_subject *subject, command_query_fn ask)
{
    int status = command_subject_resolve(config, subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask, subject) != ERROR_NONE) return command_failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

int command_subject_revoke(const struct config *config, struct command_subject *subject, command_query_fn ask,
                           const char *none)
{
    int status = command_subject_resolve(config, subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask, subject) != ERROR_NONE) return command_failed(&query.err);
    if (query.count == 0) {
        fprintf(stderr, "culvertd: %s\n", none);
        return EXIT_STATE;
    }
    puts("{\"revoked\":true}");
    return EXIT_DONE;
}

int command_subject_print_secret(const struct config *config, command_query_fn ask, struct command_subject *subject,
                                 const struct token *token, char text[TOKEN_TEXT_BYTES])
{
    struct command_query query;
    int status = EXIT_DONE;
    if (command_query_run(config, &query, ask, subject) != ERROR_NONE) {
        status = command_failed(&query.err);
    } else {
        printf("{\"id\":\"%s\",\"token\":\"%s\"}\n", token->id, text);
        mem_free(query.node);
    }
    explicit_bzero(text, TOKEN_TEXT_BYTES);
    return status;
}
