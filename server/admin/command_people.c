#include "server/admin/command_people.h"

#include <stdio.h>
#include <string.h>

#include "api/access/browser_session_store.h"
#include "api/access/identity_store.h"
#include "api/access/scope.h"
#include "api/access/session_cookie.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/token.h"
#include "server/admin/command_status.h"
#include "server/admin/command_subject.h"
#include "server/listener_settings.h"

enum { SCOPES_BYTES_MAX = 128 };

struct subject {
    struct command_subject of;
    struct str user, name, email, token_id;
    bool is_admin;
    char scopes[SCOPES_BYTES_MAX]; // JSON
    struct token token;
    int64_t expires_at_ms;
    uint64_t life_ms;
};

static void ask_create_account(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_account(query->pg, subject->of.account_id, subject->of.account, command_query_on_node, query);
}

int command_create_account(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 1 || !command_arguments_only(words, "|if-absent|"))
        return command_usage("admin create-account NAME [--if-absent]");
    struct subject subject = {.of.account = str_c(words->plain[0])};
    id_account(subject.of.account_id);
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_account, &subject);
    if (code == ERROR_CONFLICT && command_arguments_option(words, "if-absent"))
        code = command_query_run(config, &query, command_subject_ask, &subject);
    if (code != ERROR_NONE) return command_failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

static void ask_create_user(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_user(query->pg, subject->of.account_id, subject->name, subject->email, subject->is_admin,
                               command_query_on_node, query);
}

int command_create_user(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 2 || !account || !command_arguments_only(words, "|account|admin|if-absent|"))
        return command_usage("admin create-user --account ACCOUNT NAME EMAIL [--admin] [--if-absent]");
    struct subject subject = {.of.account = str_c(account),
                              .name = str_c(words->plain[0]),
                              .email = str_c(words->plain[1]),
                              .is_admin = command_arguments_option(words, "admin") != NULL};
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_user, &subject);
    if (code == ERROR_CONFLICT && command_arguments_option(words, "if-absent")) {
        fprintf(stderr, "culvertd: the user exists already\n");
        return EXIT_DONE;
    }
    if (code != ERROR_NONE) return command_failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

static void ask_create_key(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_key(query->pg, subject->of.account_id, subject->user, subject->name, subject->token.id,
                              subject->token.secret_sha256, str_c(subject->scopes), subject->expires_at_ms,
                              command_query_on_node, query);
}

// "read,calls" as JSON. False: a scope is unknown.
static bool take_scopes(const char *text, char out[SCOPES_BYTES_MAX])
{
    struct str rest = str_c(text), one;
    size_t len = (size_t)snprintf(out, SCOPES_BYTES_MAX, "[");
    while (rest.len) {
        str_cut(&rest, ',', &one);
        if (!scope_bit(one) || len + one.len + 4 > SCOPES_BYTES_MAX) return false;
        len += (size_t)snprintf(out + len, SCOPES_BYTES_MAX - len, "%s\"%.*s\"", len > 1 ? "," : "", STR_ARG(one));
    }
    snprintf(out + len, SCOPES_BYTES_MAX - len, "]");
    return true;
}

int command_create_key(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user"),
               *expires = command_arguments_option(words, "expires");
    if (words->plain_count != 1 || !account || !user || !command_arguments_only(words, "|account|user|expires|scopes|"))
        return command_usage(
            "admin create-key --account ACCOUNT --user USER NAME [--expires 90d] [--scopes read,calls]");
    struct subject subject = {.of.account = str_c(account), .user = str_c(user), .name = str_c(words->plain[0])};
    const char *scopes = command_arguments_option(words, "scopes");
    if (!take_scopes(scopes ? scopes : "", subject.scopes)) return command_usage("--scopes: read, write, calls, admin");
    if (expires) {
        uint64_t span_ms;
        struct error err;
        if (parse_duration_ms(str_c(expires), &span_ms, &err) != ERROR_NONE) return command_usage(err.text);
        subject.expires_at_ms = clock_wall_ms() + (int64_t)span_ms;
    }
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&subject.token, text);
    return command_subject_print_secret(config, ask_create_key, &subject.of, &subject.token, text);
}

static void ask_revoke_key(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_revoke_key(query->pg, subject->of.account_id, subject->token_id, command_query_on_count, query);
}

int command_revoke_key(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin revoke-key --account ACCOUNT ID");
    struct subject subject = {.of.account = str_c(account), .token_id = str_c(words->plain[0])};
    return command_subject_revoke(config, &subject.of, ask_revoke_key, "the key does not exist");
}

// ---- browser sessions ---------------------------------------------------------------------------

static void ask_sign_in_link(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    sign_in_link_store_create(query->pg, subject->of.account_id, subject->user, &subject->token, subject->life_ms,
                              command_query_on_node, query);
}

// The token stands behind "#": browsers keep that part to themselves, so it is in no log.
static void print_link(const char *platform_url, const char *text, const char *node)
{
    json_t *link = NULL;
    size_t len = strlen(platform_url);
    bool has_slash = len && platform_url[len - 1] == '/';
    if (json_decode(str_c(node), NULL, &link, NULL) != ERROR_NONE) return;
    printf("{\"url\":\"%s%sui/sign-in#token=%s\",\"token\":\"%s\",\"expiresAt\":\"%.*s\"}\n", platform_url,
           has_slash ? "" : "/", text, text, STR_ARG(json_get_str(link, "expiresAt")));
    json_decref(link);
}

int command_sign_in_link(const struct config *config, const struct command_arguments *words)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user");
    if (words->plain_count != 0 || !account || !user || !command_arguments_only(words, "|account|user|"))
        return command_usage("admin sign-in-link --account ACCOUNT --user USER");
    struct subject subject = {.of.account = str_c(account),
                              .user = str_c(user),
                              .life_ms = (uint64_t)config_number(config, "sessions.link_life")};
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    sign_in_link_generate(&subject.token, text);
    struct command_query query;
    if (command_query_run(config, &query, ask_sign_in_link, &subject) != ERROR_NONE) {
        status = command_failed(&query.err);
    } else {
        // The only time that the token is seen.
        print_link(listeners->platform_url, text, query.node);
        mem_free(query.node);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

static void ask_end_sessions(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    browser_session_store_end_by_name(query->pg, subject->of.account_id, subject->user, command_query_on_count, query);
}

int command_end_sessions(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user");
    if (words->plain_count != 0 || !account || !user || !command_arguments_only(words, "|account|user|"))
        return command_usage("admin end-sessions --account ACCOUNT --user USER");
    struct subject subject = {.of.account = str_c(account), .user = str_c(user)};
    int status = command_subject_resolve(config, &subject.of);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_end_sessions, &subject) != ERROR_NONE) return command_failed(&query.err);
    printf("{\"ended\":%llu}\n", (unsigned long long)query.count);
    return EXIT_DONE;
}
