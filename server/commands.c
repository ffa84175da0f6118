#include "server/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/token.h"
#include "migrations/migrations.h"
#include "server/command_query.h"
#include "server/command_words.h"
#include "server/traffic.h"
#include "server/traffic_report.h"
#include "server/tunnel_table.h"
#include "storage/deployment_store.h"
#include "storage/identity_store.h"
#include "storage/session_store.h"

void commands_print_usage(void)
{
    puts("culvertd [SETTINGS]                                   serve\n"
         "culvertd [SETTINGS] migrate                           bring the database to this version\n"
         "culvertd [SETTINGS] admin create-account NAME [--if-absent]\n"
         "culvertd [SETTINGS] admin create-user --account ACCOUNT NAME EMAIL [--admin] [--if-absent]\n"
         "culvertd [SETTINGS] admin create-key --account ACCOUNT --user USER NAME [--expires 90d]\n"
         "culvertd [SETTINGS] admin revoke-key --account ACCOUNT ID\n"
         "culvertd [SETTINGS] admin set-retention --account ACCOUNT DAYS|default\n"
         "culvertd [SETTINGS] admin traffic [--minutes N]       reports and requests by the minute, as Redis knows "
         "them\n"
         "culvertd [SETTINGS] admin tunnels [--account ACCOUNT] [--json]\n"
         "culvertd --check-config | --print-config | --print-example | --version | --help\n"
         "\n"
         "SETTINGS: --config FILE, environment CULVERT_..., flags --name=value; the later wins.\n"
         "Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 exists already or not found.\n");
}

static int usage(const char *text)
{
    fprintf(stderr, "culvertd: %s; culvertd --help says how\n", text);
    return EXIT_USAGE;
}

static int failed(const struct error *err)
{
    fprintf(stderr, "culvertd: %s\n", err->text);
    return err->code == ERROR_CONFLICT || err->code == ERROR_NOT_FOUND ? EXIT_STATE : EXIT_FAILED;
}

// ---- the commands --------------------------------------------------------------------------------------------------

struct subject {
    char account_id[64];
    struct str account, user, name, email, token_id;
    bool is_admin;
    struct token token;
    int64_t expires_at_ms;
    unsigned keep_days;
};

static void ask_find_account(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_find_account(query->pg, subject->account, command_query_on_node, query);
}

// Fills subject->account_id from the account's name.
static int resolve_account(const struct server_config *config, struct subject *subject)
{
    struct command_query query;
    if (command_query_run(config, &query, ask_find_account, subject) != ERROR_NONE) return failed(&query.err);
    json_t *node = NULL;
    int status = EXIT_DONE;
    if (!query.node[0] || json_decode(str_c(query.node), NULL, &node, NULL) != ERROR_NONE) {
        fprintf(stderr, "culvertd: there is no account \"%.*s\"\n", STR_ARG(subject->account));
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

static int create_account(const struct server_config *config, const struct command_words *words)
{
    if (words->plain_count != 1 || !command_words_only(words, "|if-absent|"))
        return usage("admin create-account NAME [--if-absent]");
    struct subject subject = {.account = str_c(words->plain[0])};
    id_account(subject.account_id);
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_account, &subject);
    if (code == ERROR_CONFLICT && command_words_option(words, "if-absent"))
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

static int create_user(const struct server_config *config, const struct command_words *words)
{
    const char *account = command_words_option(words, "account");
    if (words->plain_count != 2 || !account || !command_words_only(words, "|account|admin|if-absent|"))
        return usage("admin create-user --account ACCOUNT NAME EMAIL [--admin] [--if-absent]");
    struct subject subject = {.account = str_c(account),
                              .name = str_c(words->plain[0]),
                              .email = str_c(words->plain[1]),
                              .is_admin = command_words_option(words, "admin") != NULL};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    enum error_code code = command_query_run(config, &query, ask_create_user, &subject);
    if (code == ERROR_CONFLICT && command_words_option(words, "if-absent")) {
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
                              subject->token.secret_sha256, STR("[]"), subject->expires_at_ms, command_query_on_node,
                              query);
}

static int create_key(const struct server_config *config, const struct command_words *words)
{
    const char *account = command_words_option(words, "account"), *user = command_words_option(words, "user"),
               *expires = command_words_option(words, "expires");
    if (words->plain_count != 1 || !account || !user || !command_words_only(words, "|account|user|expires|"))
        return usage("admin create-key --account ACCOUNT --user USER NAME [--expires 90d]");
    struct subject subject = {.account = str_c(account), .user = str_c(user), .name = str_c(words->plain[0])};
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
    struct command_query query;
    if (command_query_run(config, &query, ask_create_key, &subject) != ERROR_NONE) {
        status = failed(&query.err);
    } else {
        // The only time that the key is seen.
        printf("{\"id\":\"%s\",\"token\":\"%s\"}\n", subject.token.id, text);
        mem_free(query.node);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

static void ask_revoke_key(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_revoke_key(query->pg, subject->account_id, subject->token_id, command_query_on_count, query);
}

static int revoke_key(const struct server_config *config, const struct command_words *words)
{
    const char *account = command_words_option(words, "account");
    if (words->plain_count != 1 || !account || !command_words_only(words, "|account|"))
        return usage("admin revoke-key --account ACCOUNT ID");
    struct subject subject = {.account = str_c(account), .token_id = str_c(words->plain[0])};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_revoke_key, &subject) != ERROR_NONE) return failed(&query.err);
    if (query.count == 0) {
        fprintf(stderr, "culvertd: there is no such key\n");
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
    deployment_store_set_keep(query->pg, subject->account_id, subject->keep_days, command_query_on_node, query);
}

static int set_retention(const struct server_config *config, const struct command_words *words)
{
    const char *account = command_words_option(words, "account");
    uint64_t days = 0;
    if (words->plain_count != 1 || !account || !command_words_only(words, "|account|"))
        return usage("admin set-retention --account ACCOUNT DAYS|default");
    if (strcmp(words->plain[0], "default") != 0 &&
        parse_u64(str_c(words->plain[0]), KEEP_DAYS_MIN, KEEP_DAYS_MAX, &days, NULL) != ERROR_NONE)
        return usage("DAYS: a number between 7 and 36500, or the word default");
    struct subject subject = {.account = str_c(account), .keep_days = (unsigned)days};
    int status = resolve_account(config, &subject);
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_set_retention, &subject) != ERROR_NONE) return failed(&query.err);
    puts(query.node);
    mem_free(query.node);
    return EXIT_DONE;
}

// ---- tunnels -------------------------------------------------------------------------------------------------------

static void ask_tunnels(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    session_store_list(query->pg, str_c(subject->account_id), TUNNEL_TABLE_ROWS_MAX, command_query_on_node, query);
}

static int tunnels(const struct server_config *config, const struct command_words *words)
{
    const char *account = command_words_option(words, "account");
    if (words->plain_count != 0 || !command_words_only(words, "|account|json|"))
        return usage("admin tunnels [--account ACCOUNT] [--json]");
    struct subject subject = {.account = str_c(account)};
    int status = account ? resolve_account(config, &subject) : EXIT_DONE;
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_tunnels, &subject) != ERROR_NONE) return failed(&query.err);
    if (command_words_option(words, "json"))
        puts(query.node);
    else if (tunnel_table_print(str_c(query.node), &query.err) != ERROR_NONE)
        status = failed(&query.err);
    mem_free(query.node);
    return status;
}

// ---- traffic -------------------------------------------------------------------------------------------------------

static int traffic(const struct server_config *config, const struct command_words *words)
{
    const char *text = command_words_option(words, "minutes");
    uint64_t minutes = 5;
    struct error err;
    bool fits = !text || parse_u64(str_c(text), 1, TRAFFIC_MINUTES_MAX, &minutes, NULL) == ERROR_NONE;
    if (words->plain_count != 0 || !command_words_only(words, "|minutes|") || !fits)
        return usage("admin traffic [--minutes 1..20]");
    return traffic_report_print(config, (unsigned)minutes, &err) == ERROR_NONE ? EXIT_DONE : failed(&err);
}

static void on_migration(void *arg, unsigned version, const char *name)
{
    (void)arg;
    (void)version;
    printf("applied %s\n", name);
}

static int migrate(const struct server_config *config)
{
    const char *url = config->database_migrate_url[0] ? config->database_migrate_url : config->database_url;
    char *conninfo;
    struct error err;
    if (server_config_secret(url, &conninfo, &err) != ERROR_NONE) return failed(&err);
    enum error_code code = migrations_apply(conninfo, on_migration, NULL, &err);
    mem_free_secret(conninfo, strlen(conninfo));
    if (code != ERROR_NONE) return failed(&err);
    puts("the database is at this version");
    return EXIT_DONE;
}

int commands_run(const struct server_config *config, int argc, const char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct server_config *, const struct command_words *);
    } commands[] = {
        {"create-account", create_account},
        {"create-user", create_user},
        {"create-key", create_key},
        {"revoke-key", revoke_key},
        {"set-retention", set_retention},
        {"tunnels", tunnels},
        {"traffic", traffic},
    };
    if (strcmp(argv[0], "migrate") == 0) return argc == 1 ? migrate(config) : usage("migrate takes no words");
    if (strcmp(argv[0], "admin") != 0 || argc < 2) return usage("the command is unknown");
    struct command_words words;
    if (!command_words_sort(argc - 2, argv + 2, &words)) return usage("the words do not fit the command");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(config, &words);
    return usage("the admin command is unknown");
}
