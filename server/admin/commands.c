#include "server/admin/commands.h"

#include <stdio.h>
#include <string.h>

#include "api/access/audit_store.h"
#include "api/access/browser_session_store.h"
#include "api/access/identity_store.h"
#include "api/access/runtime_token_settings.h"
#include "api/access/runtime_token_store.h"
#include "api/access/scope.h"
#include "api/access/session_cookie.h"
#include "base/clock.h"
#include "base/deployment_key.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/token.h"
#include "migrations/migrations.h"
#include "server/admin/command_arguments.h"
#include "server/admin/command_enrollment.h"
#include "server/admin/command_query.h"
#include "server/admin/command_roles.h"
#include "server/admin/database_check.h"
#include "server/chores/traffic.h"
#include "server/chores/traffic_report.h"
#include "server/listener_settings.h"
#include "server/tunnel_table.h"
#include "storage/reports/storage_usage_store.h"
#include "storage/sessions/session_store.h"

void commands_print_usage(void)
{
    puts("culvertd [SETTINGS]                                   serve\n"
         "culvertd migrate --url-file FILE                      migrate the database to this version; FILE contains "
         "the owner's connection string\n"
         "culvertd [SETTINGS] admin create-account NAME [--if-absent]\n"
         "culvertd [SETTINGS] admin create-user --account ACCOUNT NAME EMAIL [--admin] [--if-absent]\n"
         "culvertd [SETTINGS] admin create-key --account ACCOUNT --user USER NAME [--expires 90d]\n"
         "                          [--scopes read,write,calls,admin]\n"
         "culvertd [SETTINGS] admin revoke-key --account ACCOUNT ID\n"
         "culvertd [SETTINGS] admin sign-in-link --account ACCOUNT --user USER\n"
         "                                                      a link that opens one browser session\n"
         "culvertd [SETTINGS] admin end-sessions --account ACCOUNT --user USER\n"
         "                                                      end all browser sessions of the user\n"
         "culvertd [SETTINGS] admin verify-audit --account ACCOUNT\n"
         "                                                      check the chain of the account's audit log\n"
         "culvertd [SETTINGS] admin export-audit --account ACCOUNT   the audit log as JSON Lines, oldest first\n"
         "culvertd [SETTINGS] admin check-database              can this server use the database, such as a restored "
         "one\n"
         "culvertd [SETTINGS] admin create-runtime-token --account ACCOUNT --runtime RUNTIME [--expires 90d]\n"
         "                                                      [--replace-after 24h] [NAME]\n"
         "culvertd [SETTINGS] admin list-runtime-tokens --account ACCOUNT --runtime RUNTIME\n"
         "culvertd [SETTINGS] admin revoke-runtime-token --account ACCOUNT --runtime RUNTIME ID\n"
         "culvertd [SETTINGS] admin create-enrollment-token --account ACCOUNT [--expires 1d] [--uses 1] [--names "
         "PATTERN] "
         "NAME\n"
         "                                                      agents create their runtimes with it\n"
         "culvertd [SETTINGS] admin list-enrollment-tokens --account ACCOUNT\n"
         "culvertd [SETTINGS] admin revoke-enrollment-token --account ACCOUNT ID\n"
         "culvertd [SETTINGS] admin set-retention --account ACCOUNT DAYS|default\n"
         "culvertd [SETTINGS] admin set-quota --account ACCOUNT [--bytes N|default] [--rows N|default]\n"
         "                          [--runtime-bytes N|default] [--runtime-rows N|default]\n"
         "culvertd [SETTINGS] admin usage --account ACCOUNT [--recount]   stored bytes and rows, and quotas\n"
         "culvertd [SETTINGS] admin traffic [--minutes N]       reports and requests per minute, from the counters in "
         "Redis\n"
         "culvertd [SETTINGS] admin encrypt-tokens              encrypt the hashes of runtime tokens with the current "
         "deployment key\n"
         "culvertd [SETTINGS] admin tunnels [--account ACCOUNT] [--json]\n"
         "culvertd admin print-roles [--owner NAME] [--login NAME] [--database NAME]\n"
         "                                                      SQL for the database's administrator\n"
         "culvertd admin create-deployment-key FILE             create a secret for security.deployment_key_file\n"
         "culvertd --check-config | --print-config | --print-example | --version | --help\n"
         "\n"
         "SETTINGS: --config FILE, environment CULVERT_..., flags --name=value; later ones take precedence.\n"
         "Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 exists already or not found.\n");
}

static int usage(const char *text)
{
    fprintf(stderr, "culvertd: %s; see culvertd --help\n", text);
    return EXIT_USAGE;
}

static int failed(const struct error *err)
{
    fprintf(stderr, "culvertd: %s\n", err->text);
    return err->code == ERROR_CONFLICT || err->code == ERROR_NOT_FOUND ? EXIT_STATE : EXIT_FAILED;
}

// ---- the commands --------------------------------------------------------------------------------------------------

enum { SCOPES_BYTES_MAX = 128 };

struct subject {
    char account_id[64];
    struct str account, user, name, email, token_id;
    bool is_admin;
    char scopes[SCOPES_BYTES_MAX]; // JSON
    struct token token;
    int64_t expires_at_ms;
    unsigned keep_days;
    uint64_t life_ms, after;
    struct runtime_token_new runtime_token;
    struct storage_quota quota;
};

static void ask_find_account(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_find_account(query->pg, subject->account, command_query_on_node, query);
}

// Fills subject->account_id from the account's name.
static int resolve_account(const struct config *config, struct subject *subject)
{
    struct command_query query;
    if (command_query_run(config, &query, ask_find_account, subject) != ERROR_NONE) return failed(&query.err);
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

static void ask_create_account(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_account(query->pg, subject->account_id, subject->account, command_query_on_node, query);
}

static int create_account(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 1 || !command_arguments_only(words, "|if-absent|"))
        return usage("admin create-account NAME [--if-absent]");
    struct subject subject = {.account = str_c(words->plain[0])};
    id_account(subject.account_id);
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_account, &subject);
    if (code == ERROR_CONFLICT && command_arguments_option(words, "if-absent"))
        code = command_query_run(config, &query, ask_find_account, &subject);
    if (code != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

static void ask_create_user(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_user(query->pg, subject->account_id, subject->name, subject->email, subject->is_admin,
                               command_query_on_node, query);
}

static int create_user(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 2 || !account || !command_arguments_only(words, "|account|admin|if-absent|"))
        return usage("admin create-user --account ACCOUNT NAME EMAIL [--admin] [--if-absent]");
    struct subject subject = {.account = str_c(account),
                              .name = str_c(words->plain[0]),
                              .email = str_c(words->plain[1]),
                              .is_admin = command_arguments_option(words, "admin") != NULL};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_user, &subject);
    if (code == ERROR_CONFLICT && command_arguments_option(words, "if-absent")) {
        fprintf(stderr, "culvertd: the user exists already\n");
        return EXIT_DONE;
    }
    if (code != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

static void ask_create_key(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_create_key(query->pg, subject->account_id, subject->user, subject->name, subject->token.id,
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

// Stores subject->token and prints its text, the only time that it is seen; overwrites the text.
static int create_secret(const struct config *config, void (*ask)(struct command_query *query, void *arg),
                         struct subject *subject, char text[TOKEN_TEXT_BYTES])
{
    struct command_query query;
    int status = EXIT_DONE;
    if (command_query_run(config, &query, ask, subject) != ERROR_NONE) {
        status = failed(&query.err);
    } else {
        printf("{\"id\":\"%s\",\"token\":\"%s\"}\n", subject->token.id, text);
        mem_free(query.node);
    }
    explicit_bzero(text, TOKEN_TEXT_BYTES);
    return status;
}

static int create_key(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user"),
               *expires = command_arguments_option(words, "expires");
    if (words->plain_count != 1 || !account || !user || !command_arguments_only(words, "|account|user|expires|scopes|"))
        return usage("admin create-key --account ACCOUNT --user USER NAME [--expires 90d] [--scopes read,calls]");
    struct subject subject = {.account = str_c(account), .user = str_c(user), .name = str_c(words->plain[0])};
    const char *scopes = command_arguments_option(words, "scopes");
    if (!take_scopes(scopes ? scopes : "", subject.scopes)) return usage("--scopes: read, write, calls, admin");
    if (expires) {
        uint64_t span_ms;
        struct error err;
        if (parse_duration_ms(str_c(expires), &span_ms, &err) != ERROR_NONE) return usage(err.text);
        subject.expires_at_ms = clock_wall_ms() + (int64_t)span_ms;
    }
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&subject.token, text);
    return create_secret(config, ask_create_key, &subject, text);
}

static void ask_revoke_key(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_revoke_key(query->pg, subject->account_id, subject->token_id, command_query_on_count, query);
}

static int revoke_key(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin revoke-key --account ACCOUNT ID");
    struct subject subject = {.account = str_c(account), .token_id = str_c(words->plain[0])};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_revoke_key, &subject) != ERROR_NONE) return failed(&query.err);
    if (query.count == 0) {
        fprintf(stderr, "culvertd: the key does not exist\n");
        return EXIT_STATE;
    }
    puts("{\"revoked\":true}");
    return EXIT_DONE;
}

// ---- browser sessions ---------------------------------------------------------------------------

static void ask_sign_in_link(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    sign_in_link_store_create(query->pg, subject->account_id, subject->user, &subject->token, subject->life_ms,
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

static int sign_in_link(const struct config *config, const struct command_arguments *words)
{
    const struct listener_settings *listeners = listener_settings_of(config);
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user");
    if (words->plain_count != 0 || !account || !user || !command_arguments_only(words, "|account|user|"))
        return usage("admin sign-in-link --account ACCOUNT --user USER");
    struct subject subject = {.account = str_c(account),
                              .user = str_c(user),
                              .life_ms = (uint64_t)config_number(config, "sessions.link_life")};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    sign_in_link_generate(&subject.token, text);
    struct command_query query;
    if (command_query_run(config, &query, ask_sign_in_link, &subject) != ERROR_NONE) {
        status = failed(&query.err);
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
    browser_session_store_end_by_name(query->pg, subject->account_id, subject->user, command_query_on_count, query);
}

static int end_sessions(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"), *user = command_arguments_option(words, "user");
    if (words->plain_count != 0 || !account || !user || !command_arguments_only(words, "|account|user|"))
        return usage("admin end-sessions --account ACCOUNT --user USER");
    struct subject subject = {.account = str_c(account), .user = str_c(user)};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_end_sessions, &subject) != ERROR_NONE) return failed(&query.err);
    printf("{\"ended\":%llu}\n", (unsigned long long)query.count);
    return EXIT_DONE;
}

// ---- audit --------------------------------------------------------------------------------------

static void ask_verify_audit(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    audit_store_verify(query->pg, subject->account_id, command_query_on_node, query);
}

static int verify_audit(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin verify-audit --account ACCOUNT");
    struct subject subject = {.account = str_c(account)};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    json_t *found = NULL;
    if (command_query_run(config, &query, ask_verify_audit, &subject) != ERROR_NONE) return failed(&query.err);
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
    audit_store_export(query->pg, subject->account_id, subject->after, command_query_on_node, query);
}

// Page by page, so that neither the server nor this command has to hold it all.
static int export_audit(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin export-audit --account ACCOUNT");
    struct subject subject = {.account = str_c(account)};
    int status = resolve_account(config, &subject);
    while (status == EXIT_DONE) {
        struct command_query query;
        json_t *page = NULL;
        const struct json_limits limits = {.bytes_max = 256u * 1024 * 1024};
        if (command_query_run(config, &query, ask_export_audit, &subject) != ERROR_NONE) return failed(&query.err);
        enum error_code code = json_decode(str_c(query.node), &limits, &page, &query.err);
        mem_free(query.node);
        if (code != ERROR_NONE) return failed(&query.err);
        uint64_t last = (uint64_t)json_integer_value(json_object_get(page, "last"));
        if (last) printf("%.*s\n", STR_ARG(json_get_str(page, "lines")));
        json_decref(page);
        if (!last) break;
        subject.after = last;
    }
    return status;
}

// ---- runtime tokens ------------------------------------------------------------------------------------------------

static void ask_create_runtime_token(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    runtime_token_store_create(query->pg, subject->account_id, &subject->runtime_token, command_query_on_node, query);
}

// A span in an option; left alone when it is not there.
static bool take_span(const struct command_arguments *words, const char *name, uint64_t *out, bool *out_has,
                      struct error *err)
{
    const char *text = command_arguments_option(words, name);
    *out_has = text != NULL;
    return !text || parse_duration_ms(str_c(text), out, err) == ERROR_NONE;
}

static int create_runtime_token(const struct config *config, const struct command_arguments *words)
{
    const struct runtime_token_settings *tokens = runtime_token_settings_of(config);
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count > 1 || !account || !runtime ||
        !command_arguments_only(words, "|account|runtime|expires|replace-after|"))
        return usage("admin create-runtime-token --account ACCOUNT --runtime RUNTIME [--expires 90d] "
                     "[--replace-after 24h] [NAME]");
    struct subject subject = {.account = str_c(account)};
    struct runtime_token_new *wanted = &subject.runtime_token;
    struct error err;
    bool expires;
    *wanted = (struct runtime_token_new){.runtime = str_c(runtime),
                                         .name = str_c(words->plain_count ? words->plain[0] : ""),
                                         .valid_max = (unsigned)tokens->valid_max};
    if (!take_span(words, "expires", &wanted->expires_in_ms, &expires, &err) ||
        !take_span(words, "replace-after", &wanted->grace_ms, &wanted->replaces, &err))
        return usage(err.text);
    if (expires && !wanted->expires_in_ms) return usage("--expires must be more than nothing");
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&subject.token, text);
    wanted->token_id = str_c(subject.token.id);
    memcpy(wanted->token_sha256, subject.token.secret_sha256, sizeof wanted->token_sha256);
    return create_secret(config, ask_create_runtime_token, &subject, text);
}

static void ask_list_runtime_tokens(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    runtime_token_store_list(query->pg, subject->account_id, subject->runtime_token.runtime, command_query_on_node,
                             query);
}

static int list_runtime_tokens(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count != 0 || !account || !runtime || !command_arguments_only(words, "|account|runtime|"))
        return usage("admin list-runtime-tokens --account ACCOUNT --runtime RUNTIME");
    struct subject subject = {.account = str_c(account), .runtime_token.runtime = str_c(runtime)};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_list_runtime_tokens, &subject) != ERROR_NONE) return failed(&query.err);
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
    runtime_token_store_revoke(query->pg, subject->account_id, subject->runtime_token.runtime, subject->token_id,
                               command_query_on_count, query);
}

static int revoke_runtime_token(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account"),
               *runtime = command_arguments_option(words, "runtime");
    if (words->plain_count != 1 || !account || !runtime || !command_arguments_only(words, "|account|runtime|"))
        return usage("admin revoke-runtime-token --account ACCOUNT --runtime RUNTIME ID");
    struct subject subject = {
        .account = str_c(account), .token_id = str_c(words->plain[0]), .runtime_token.runtime = str_c(runtime)};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_revoke_runtime_token, &subject) != ERROR_NONE) return failed(&query.err);
    if (query.count == 0) {
        fprintf(stderr, "culvertd: the runtime has no valid token with this id\n");
        return EXIT_STATE;
    }
    puts("{\"revoked\":true}");
    return EXIT_DONE;
}

// ---- retention -----------------------------------------------------------------------------------------------------

enum { KEEP_DAYS_MIN = 7, KEEP_DAYS_MAX = 36500 };

static void ask_set_retention(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_set_history_keep(query->pg, subject->account_id, subject->keep_days, command_query_on_node, query);
}

static int set_retention(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    uint64_t days = 0;
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return usage("admin set-retention --account ACCOUNT DAYS|default");
    if (strcmp(words->plain[0], "default") != 0 &&
        parse_u64(str_c(words->plain[0]), KEEP_DAYS_MIN, KEEP_DAYS_MAX, &days, NULL) != ERROR_NONE)
        return usage("DAYS: a number between 7 and 36500, or default");
    struct subject subject = {.account = str_c(account), .keep_days = (unsigned)days};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_set_retention, &subject) != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

// ---- storage quotas ------------------------------------------------------------------------------------------------

static void ask_set_quota(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_set_quota(query->pg, subject->account_id, &subject->quota, command_query_on_node, query);
}

static void ask_usage(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_get(query->pg, subject->account_id, command_query_on_node, query);
}

static void ask_recount(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_recount(query->pg, subject->account_id, command_query_on_node, query);
}

// Resolves the account, asks, and prints the answer.
static int print_answer(const struct config *config, struct subject *subject, command_query_fn ask)
{
    int status = resolve_account(config, subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask, subject) != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

// False: neither a number (bytes: with a unit, as in settings) nor default. Left out: as it is.
static bool take_quota(const struct command_arguments *words, const char *name, bool is_bytes, int64_t *out)
{
    const char *text = command_arguments_option(words, name);
    uint64_t value = 0;
    *out = STORAGE_QUOTA_KEEP;
    if (!text) return true;
    *out = 0;
    if (strcmp(text, "default") == 0) return true;
    enum error_code code =
        is_bytes ? parse_bytes(str_c(text), &value, NULL) : parse_u64(str_c(text), 1, INT64_MAX, &value, NULL);
    *out = (int64_t)value;
    return code == ERROR_NONE && value > 0 && value <= INT64_MAX;
}

static int set_quota(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    struct subject subject = {.account = str_c(account)};
    bool fits = take_quota(words, "bytes", true, &subject.quota.bytes);
    fits &= take_quota(words, "rows", false, &subject.quota.rows);
    fits &= take_quota(words, "runtime-bytes", true, &subject.quota.runtime_bytes);
    fits &= take_quota(words, "runtime-rows", false, &subject.quota.runtime_rows);
    if (!account || words->plain_count != 0 || !fits ||
        !command_arguments_only(words, "|account|bytes|rows|runtime-bytes|runtime-rows|"))
        return usage(
            "admin set-quota --account ACCOUNT [--bytes N|default] [--rows N|default] [--runtime-bytes N|default] "
            "[--runtime-rows N|default]; bytes as in 500MiB");
    return print_answer(config, &subject, ask_set_quota);
}

static int show_usage(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (!account || words->plain_count != 0 || !command_arguments_only(words, "|account|recount|"))
        return usage("admin usage --account ACCOUNT [--recount]");
    struct subject subject = {.account = str_c(account)};
    return print_answer(config, &subject, command_arguments_option(words, "recount") ? ask_recount : ask_usage);
}

static int check_database(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 0 || !command_arguments_only(words, "|")) return usage("admin check-database");
    return database_check_run(config) ? EXIT_DONE : EXIT_FAILED;
}

// ---- tunnels -------------------------------------------------------------------------------------------------------

static void ask_tunnels(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    session_store_list(query->pg, str_c(subject->account_id), TUNNEL_TABLE_ROWS_MAX, command_query_on_node, query);
}

static int tunnels(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !command_arguments_only(words, "|account|json|"))
        return usage("admin tunnels [--account ACCOUNT] [--json]");
    struct subject subject = {.account = str_c(account)};
    int status = account ? resolve_account(config, &subject) : EXIT_DONE;
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_tunnels, &subject) != ERROR_NONE) return failed(&query.err);
    if (command_arguments_option(words, "json"))
        puts(query.node);
    else if (tunnel_table_print(str_c(query.node), &query.err) != ERROR_NONE)
        status = failed(&query.err);
    mem_free(query.node);
    return status;
}

// ---- runtime tokens ------------------------------------------------------------------------------------------------

static void ask_encrypt_tokens(struct command_query *query, void *arg)
{
    (void)arg;
    runtime_token_store_seal_all(query->pg, command_query_on_count, query);
}

static int encrypt_tokens(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 0 || !command_arguments_only(words, "|")) return usage("admin encrypt-tokens");
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_encrypt_tokens, NULL);
    if (code == ERROR_NONE) printf("{\"encrypted\":%llu}\n", (unsigned long long)query.count);
    return code == ERROR_NONE ? EXIT_DONE : failed(&query.err);
}

// ---- traffic -------------------------------------------------------------------------------------------------------

static int traffic(const struct config *config, const struct command_arguments *words)
{
    const char *text = command_arguments_option(words, "minutes");
    uint64_t minutes = 5;
    struct error err;
    bool fits = !text || parse_u64(str_c(text), 1, TRAFFIC_MINUTES_MAX, &minutes, NULL) == ERROR_NONE;
    if (words->plain_count != 0 || !command_arguments_only(words, "|minutes|") || !fits)
        return usage("admin traffic [--minutes 1..20]");
    return traffic_report_print(config, (unsigned)minutes, &err) == ERROR_NONE ? EXIT_DONE : failed(&err);
}

static void on_migration(void *arg, unsigned version, const char *name)
{
    (void)arg;
    (void)version;
    printf("applied %s\n", name);
}

// The owner's credential comes from a file of its own and never from the settings: what serves does not have it.
static int migrate(int argc, const char **argv)
{
    struct command_arguments words;
    char *conninfo;
    struct error err;
    bool fits = command_arguments_sort(argc, argv, &words) && command_arguments_only(&words, "|url-file|");
    const char *file = fits ? command_arguments_option(&words, "url-file") : NULL;
    if (!file || !*file || words.plain_count != 0)
        return usage("migrate --url-file FILE: the file has the connection string of the owner role, which no setting "
                     "names");
    AUTO_FREE char *url = mem_printf("file:%s", file);
    if (config_secret(url, &conninfo, &err) != ERROR_NONE) return failed(&err);
    enum error_code code = migrations_apply(conninfo, on_migration, NULL, &err);
    mem_free_secret(conninfo, strlen(conninfo));
    if (code != ERROR_NONE) return failed(&err);
    puts("the database is at this version");
    return EXIT_DONE;
}

static int create_deployment_key(int argc, const char **argv)
{
    struct error err;
    if (argc != 1) return usage("admin create-deployment-key FILE");
    if (deployment_key_create_file(argv[0], &err) != ERROR_NONE) return failed(&err);
    printf("{\"created\":true}\n");
    return EXIT_DONE;
}

static int print_roles(int argc, const char **argv)
{
    struct command_arguments words;
    if (!command_arguments_sort(argc, argv, &words) || words.plain_count != 0 ||
        !command_arguments_only(&words, "|owner|login|database|"))
        return usage("admin print-roles [--owner NAME] [--login NAME] [--database NAME]");
    const char *owner = command_arguments_option(&words, "owner"), *login = command_arguments_option(&words, "login"),
               *database = command_arguments_option(&words, "database");
    bool printed = command_roles_print(&(struct command_roles){.owner = owner ? owner : COMMAND_ROLES_PREFIX "owner",
                                                               .login = login ? login : COMMAND_ROLES_PREFIX "server",
                                                               .database = database ? database : "culvert"});
    return printed ? EXIT_DONE : usage("names are made of a-z, 0-9 and _, at most 63, and owner and login differ");
}

bool commands_run_without_settings(int argc, const char **argv, int *out_status)
{
    if (argc && strcmp(argv[0], "migrate") == 0)
        *out_status = migrate(argc - 1, argv + 1);
    else if (argc < 2 || strcmp(argv[0], "admin") != 0)
        return false;
    else if (strcmp(argv[1], "create-deployment-key") == 0)
        *out_status = create_deployment_key(argc - 2, argv + 2);
    else if (strcmp(argv[1], "print-roles") == 0)
        *out_status = print_roles(argc - 2, argv + 2);
    else
        return false;
    return true;
}

int commands_run(const struct config *config, int argc, const char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct config *, const struct command_arguments *);
    } commands[] = {
        {"create-account", create_account},
        {"create-user", create_user},
        {"create-key", create_key},
        {"revoke-key", revoke_key},
        {"sign-in-link", sign_in_link},
        {"end-sessions", end_sessions},
        {"verify-audit", verify_audit},
        {"export-audit", export_audit},
        {"check-database", check_database},
        {"create-runtime-token", create_runtime_token},
        {"create-enrollment-token", command_create_enrollment_token},
        {"list-enrollment-tokens", command_list_enrollment_tokens},
        {"revoke-enrollment-token", command_revoke_enrollment_token},
        {"list-runtime-tokens", list_runtime_tokens},
        {"revoke-runtime-token", revoke_runtime_token},
        {"set-retention", set_retention},
        {"encrypt-tokens", encrypt_tokens},
        {"set-quota", set_quota},
        {"usage", show_usage},
        {"tunnels", tunnels},
        {"traffic", traffic},
    };
    if (strcmp(argv[0], "admin") != 0 || argc < 2) return usage("the command is unknown");
    struct command_arguments words;
    if (!command_arguments_sort(argc - 2, argv + 2, &words)) return usage("the arguments do not fit the command");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(config, &words);
    return usage("the admin command is unknown");
}
