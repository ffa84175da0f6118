#include "server/admin/command_enrollment.h"

#include <stdio.h>
#include <string.h>

#include "api/access/enrollment_store.h"
#include "api/access/identity_store.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "server/admin/command_query.h"
#include "server/admin/command_status.h"

enum { LIFE_MS = 24 * 3600 * 1000 };

struct subject {
    char account_id[64];
    struct str account, token_id;
    struct enrollment_token_new wanted;
};

static int usage(const char *text)
{
    fprintf(stderr, "culvertd: %s; see culvertd --help\n", text);
    return EXIT_USAGE;
}

static int failed(const struct error *err)
{
    fprintf(stderr, "culvertd: %s\n", err->text);
    return err->code == ERROR_CONFLICT ? EXIT_STATE : EXIT_FAILED;
}

static void ask_account(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_find_account(query->pg, subject->account, command_query_on_node, query);
}

static int take_account(const struct config *config, struct subject *subject)
{
    struct command_query query;
    json_t *node = NULL;
    int status = EXIT_DONE;
    if (command_query_run(config, &query, ask_account, subject) != ERROR_NONE) return failed(&query.err);
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

static void ask_create(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_create(query->pg, subject->account_id, &subject->wanted, command_query_on_node, query);
}

static int create(const struct config *config, struct subject *subject)
{
    struct command_query query;
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    int status = take_account(config, subject);
    if (status != EXIT_DONE) return status;
    token_generate(&token, text);
    subject->wanted.token = &token;
    if (command_query_run(config, &query, ask_create, subject) == ERROR_NONE) {
        printf("{\"id\":\"%s\",\"token\":\"%s\"}\n", token.id, text);
        mem_free(query.node);
    } else {
        status = failed(&query.err);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

int command_create_enrollment_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *names = command_arguments_option(words, "names"),
               *uses = command_arguments_option(words, "uses"), *expires = command_arguments_option(words, "expires");
    uint64_t life_ms = LIFE_MS, uses_max = 1;
    struct error err;
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|expires|uses|names|"))
        return usage(
            "admin create-enrollment-token --account ACCOUNT [--expires 1d] [--uses 1] [--names PATTERN] NAME");
    if (expires && parse_duration_ms(str_c(expires), &life_ms, &err) != ERROR_NONE) return usage(err.text);
    if (uses && parse_u64(str_c(uses), 1, ENROLLMENT_USES_MAX, &uses_max, &err) != ERROR_NONE) return usage(err.text);
    struct subject subject = {.account = str_c(account),
                              .wanted = {.name = str_c(words->plain[0]),
                                         .name_pattern = str_c(names),
                                         .life_s = life_ms / 1000,
                                         .uses_max = uses_max}};
    if (enrollment_token_check(&subject.wanted, &err) != ERROR_NONE) return usage(err.text);
    return create(config, &subject);
}

static void ask_list(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_list(query->pg, subject->account_id, command_query_on_node, query);
}

int command_list_enrollment_tokens(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin list-enrollment-tokens --account ACCOUNT");
    struct subject subject = {.account = str_c(account)};
    struct command_query query;
    int status = take_account(config, &subject);
    if (status != EXIT_DONE) return status;
    if (command_query_run(config, &query, ask_list, &subject) != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

static void ask_revoke(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_revoke(query->pg, subject->account_id, subject->token_id, command_query_on_count, query);
}

int command_revoke_enrollment_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin revoke-enrollment-token --account ACCOUNT ID");
    struct subject subject = {.account = str_c(account), .token_id = str_c(words->plain[0])};
    struct command_query query;
    int status = take_account(config, &subject);
    if (status != EXIT_DONE) return status;
    if (command_query_run(config, &query, ask_revoke, &subject) != ERROR_NONE) return failed(&query.err);
    if (query.count == 0) {
        fprintf(stderr, "culvertd: there is no enrollment token with this id, or it is revoked\n");
        return EXIT_STATE;
    }
    puts("{\"revoked\":true}");
    return EXIT_DONE;
}
