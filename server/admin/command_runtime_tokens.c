#include "server/admin/command_runtime_tokens.h"

#include <stdio.h>
#include <string.h>

#include "api/access/runtime_token_settings.h"
#include "api/access/runtime_token_store.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/token.h"
#include "server/admin/command_status.h"
#include "server/admin/command_subject.h"

struct subject {
    struct command_subject of;
    struct str token_id;
    struct token token;
    struct runtime_token_new runtime_token;
};

static void ask_create_runtime_token(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    runtime_token_store_create(query->pg, subject->of.account_id, &subject->runtime_token, command_query_on_node,
                               query);
}

// A span in an option; left alone when it is not there.
static bool take_span(const struct command_arguments *words, const char *name, uint64_t *out, bool *out_has,
                      struct error *err)
{
    const char *text = command_arguments_option(words, name);
    *out_has = text != NULL;
    return !text || parse_duration_ms(str_c(text), out, err) == ERROR_NONE;
}

int command_create_runtime_token(const struct config *config, const struct command_arguments *words)
{
    const struct runtime_token_settings *tokens = runtime_token_settings_of(config);
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count > 1 || !account || !runtime ||
        !command_arguments_only(words, "|account|runtime|expires|replace-after|"))
        return command_usage("admin create-runtime-token --account ACCOUNT --runtime RUNTIME [--expires 90d] "
                             "[--replace-after 24h] [NAME]");
    struct subject subject = {.of.account = str_c(account)};
    struct runtime_token_new *wanted = &subject.runtime_token;
    struct error err;
    bool expires;
    *wanted = (struct runtime_token_new){.runtime = str_c(runtime),
                                         .name = str_c(words->plain_count ? words->plain[0] : ""),
                                         .valid_max = (unsigned)tokens->valid_max};
    if (!take_span(words, "expires", &wanted->expires_in_ms, &expires, &err) ||
        !take_span(words, "replace-after", &wanted->grace_ms, &wanted->replaces, &err))
        return command_usage(err.text);
    if (expires && !wanted->expires_in_ms) return command_usage("--expires must be more than nothing");
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&subject.token, text);
    wanted->token_id = str_c(subject.token.id);
    memcpy(wanted->token_sha256, subject.token.secret_sha256, sizeof wanted->token_sha256);
    return command_subject_print_secret(config, ask_create_runtime_token, &subject.of, &subject.token, text);
}

static void ask_list_runtime_tokens(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    runtime_token_store_list(query->pg, subject->of.account_id, subject->runtime_token.runtime, command_query_on_node,
                             query);
}

int command_list_runtime_tokens(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count != 0 || !account || !runtime || !command_arguments_only(words, "|account|runtime|"))
        return command_usage("admin list-runtime-tokens --account ACCOUNT --runtime RUNTIME");
    struct subject subject = {.of.account = str_c(account), .runtime_token.runtime = str_c(runtime)};
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_list_runtime_tokens, &subject) != ERROR_NONE)
        return command_failed(&query.err);
    if (query.node[0])
        puts(query.node);
    else
        fprintf(stderr, "culvertd: the runtime does not exist\n");
    status = query.node[0] ? EXIT_DONE : EXIT_STATE;
    mem_free(query.node);
    return status;
}

static void ask_revoke_runtime_token(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    runtime_token_store_revoke(query->pg, subject->of.account_id, subject->runtime_token.runtime, subject->token_id,
                               command_query_on_count, query);
}

int command_revoke_runtime_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count != 1 || !account || !runtime || !command_arguments_only(words, "|account|runtime|"))
        return command_usage("admin revoke-runtime-token --account ACCOUNT --runtime RUNTIME ID");
    struct subject subject = {
        .of.account = str_c(account), .token_id = str_c(words->plain[0]), .runtime_token.runtime = str_c(runtime)};
    return command_subject_revoke(config, &subject.of, ask_revoke_runtime_token,
                                  "the runtime has no valid token with this id");
}

static void ask_encrypt_tokens(struct command_query *query, void *arg)
{
    (void)arg;
    runtime_token_store_seal_all(query->pg, command_query_on_count, query);
}

int command_encrypt_tokens(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 0 || !command_arguments_only(words, "|")) return command_usage("admin encrypt-tokens");
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_encrypt_tokens, NULL);
    if (code == ERROR_NONE) printf("{\"encrypted\":%llu}\n", (unsigned long long)query.count);
    return code == ERROR_NONE ? EXIT_DONE : command_failed(&query.err);
}
