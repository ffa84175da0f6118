#include "server/admin/command_enrollment.h"

#include <stdio.h>
#include <string.h>

#include "api/access/enrollment_store.h"
#include "base/parse.h"
#include "server/admin/command_status.h"
#include "server/admin/command_subject.h"

enum { LIFE_MS = 24 * 3600 * 1000 };

struct subject {
    struct command_subject of;
    struct str token_id;
    struct enrollment_token_new wanted;
};

static void ask_create(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_create(query->pg, subject->of.account_id, &subject->wanted, command_query_on_node, query);
}

static int create(const struct config *config, struct subject *subject)
{
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    int status = command_subject_resolve(config, &subject->of);
    if (status != EXIT_DONE) return status;
    token_generate(&token, text);
    subject->wanted.token = &token;
    return command_subject_print_secret(config, ask_create, &subject->of, &token, text);
}

int command_create_enrollment_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *names = command_arguments_option(words, "names"),
               *uses = command_arguments_option(words, "uses"), *expires = command_arguments_option(words, "expires");
    uint64_t life_ms = LIFE_MS, uses_max = 1;
    struct error err;
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|expires|uses|names|"))
        return command_usage(
            "admin create-enrollment-token --account ACCOUNT [--expires 1d] [--uses 1] [--names PATTERN] NAME");
    if (expires && parse_duration_ms(str_c(expires), &life_ms, &err) != ERROR_NONE) return command_usage(err.text);
    if (uses && parse_u64(str_c(uses), 1, ENROLLMENT_USES_MAX, &uses_max, &err) != ERROR_NONE)
        return command_usage(err.text);
    struct subject subject = {.of.account = str_c(account),
                              .wanted = {.name = str_c(words->plain[0]),
                                         .name_pattern = str_c(names),
                                         .life_s = life_ms / 1000,
                                         .uses_max = uses_max}};
    if (enrollment_token_check(&subject.wanted, &err) != ERROR_NONE) return command_usage(err.text);
    return create(config, &subject);
}

static void ask_list(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_list(query->pg, subject->of.account_id, command_query_on_node, query);
}

int command_list_enrollment_tokens(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin list-enrollment-tokens --account ACCOUNT");
    struct subject subject = {.of.account = str_c(account)};
    return command_subject_print(config, &subject.of, ask_list);
}

static void ask_revoke(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    enrollment_store_revoke(query->pg, subject->of.account_id, subject->token_id, command_query_on_count, query);
}

int command_revoke_enrollment_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin revoke-enrollment-token --account ACCOUNT ID");
    struct subject subject = {.of.account = str_c(account), .token_id = str_c(words->plain[0])};
    return command_subject_revoke(config, &subject.of, ask_revoke,
                                  "there is no enrollment token with this id, or it is revoked");
}
