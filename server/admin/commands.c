#include "server/admin/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/deployment_key.h"
#include "base/mem.h"
#include "base/parse.h"
#include "migrations/migrations.h"
#include "server/admin/command_audit.h"
#include "server/admin/command_enrollment.h"
#include "server/admin/command_people.h"
#include "server/admin/command_roles.h"
#include "server/admin/command_runtime_tokens.h"
#include "server/admin/command_status.h"
#include "server/admin/command_storage.h"
#include "server/admin/command_subject.h"
#include "server/admin/database_check.h"
#include "server/chores/traffic.h"
#include "server/chores/traffic_report.h"
#include "server/tunnel_table.h"
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

static void ask_tunnels(struct command_query *query, void *arg)
{
    struct command_subject *subject = arg;
    session_store_list(query->pg, str_c(subject->account_id), TUNNEL_TABLE_ROWS_MAX, command_query_on_node, query);
}

static int tunnels(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (words->plain_count != 0 || !command_arguments_only(words, "|account|json|"))
        return command_usage("admin tunnels [--account ACCOUNT] [--json]");
    struct command_subject subject = {.account = str_c(account)};
    int status = account ? command_subject_resolve(config, &subject) : EXIT_DONE;
    if (status != EXIT_DONE) return status;
    struct command_query query;
    if (command_query_run(config, &query, ask_tunnels, &subject) != ERROR_NONE) return command_failed(&query.err);
    if (command_arguments_option(words, "json"))
        puts(query.node);
    else if (tunnel_table_print(str_c(query.node), &query.err) != ERROR_NONE)
        status = command_failed(&query.err);
    mem_free(query.node);
    return status;
}

static int check_database(const struct config *config, const struct command_arguments *words)
{
    if (words->plain_count != 0 || !command_arguments_only(words, "|")) return command_usage("admin check-database");
    return database_check_run(config) ? EXIT_DONE : EXIT_FAILED;
}

// ---- traffic -------------------------------------------------------------------------------------------------------

static int traffic(const struct config *config, const struct command_arguments *words)
{
    const char *text = command_arguments_option(words, "minutes");
    uint64_t minutes = 5;
    struct error err;
    bool fits = !text || parse_u64(str_c(text), 1, TRAFFIC_MINUTES_MAX, &minutes, NULL) == ERROR_NONE;
    if (words->plain_count != 0 || !command_arguments_only(words, "|minutes|") || !fits)
        return command_usage("admin traffic [--minutes 1..20]");
    return traffic_report_print(config, (unsigned)minutes, &err) == ERROR_NONE ? EXIT_DONE : command_failed(&err);
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
        return command_usage(
            "migrate --url-file FILE: the file has the connection string of the owner role, which no setting "
            "names");
    AUTO_FREE char *url = mem_printf("file:%s", file);
    if (config_secret(url, &conninfo, &err) != ERROR_NONE) return command_failed(&err);
    enum error_code code = migrations_apply(conninfo, on_migration, NULL, &err);
    mem_free_secret(conninfo, strlen(conninfo));
    if (code != ERROR_NONE) return command_failed(&err);
    puts("the database is at this version");
    return EXIT_DONE;
}

static int create_deployment_key(int argc, const char **argv)
{
    struct error err;
    if (argc != 1) return command_usage("admin create-deployment-key FILE");
    if (deployment_key_create_file(argv[0], &err) != ERROR_NONE) return command_failed(&err);
    printf("{\"created\":true}\n");
    return EXIT_DONE;
}

static int print_roles(int argc, const char **argv)
{
    struct command_arguments words;
    if (!command_arguments_sort(argc, argv, &words) || words.plain_count != 0 ||
        !command_arguments_only(&words, "|owner|login|database|"))
        return command_usage("admin print-roles [--owner NAME] [--login NAME] [--database NAME]");
    const char *owner = command_arguments_option(&words, "owner"), *login = command_arguments_option(&words, "login"),
               *database = command_arguments_option(&words, "database");
    bool printed = command_roles_print(&(struct command_roles){.owner = owner ? owner : COMMAND_ROLES_PREFIX "owner",
                                                               .login = login ? login : COMMAND_ROLES_PREFIX "server",
                                                               .database = database ? database : "culvert"});
    return printed ? EXIT_DONE
                   : command_usage("names are made of a-z, 0-9 and _, at most 63, and owner and login differ");
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
        {"create-account", command_create_account},
        {"create-user", command_create_user},
        {"create-key", command_create_key},
        {"revoke-key", command_revoke_key},
        {"sign-in-link", command_sign_in_link},
        {"end-sessions", command_end_sessions},
        {"verify-audit", command_verify_audit},
        {"export-audit", command_export_audit},
        {"check-database", check_database},
        {"create-runtime-token", command_create_runtime_token},
        {"create-enrollment-token", command_create_enrollment_token},
        {"list-enrollment-tokens", command_list_enrollment_tokens},
        {"revoke-enrollment-token", command_revoke_enrollment_token},
        {"list-runtime-tokens", command_list_runtime_tokens},
        {"revoke-runtime-token", command_revoke_runtime_token},
        {"set-retention", command_set_retention},
        {"encrypt-tokens", command_encrypt_tokens},
        {"set-quota", command_set_quota},
        {"usage", command_show_usage},
        {"tunnels", tunnels},
        {"traffic", traffic},
    };
    if (strcmp(argv[0], "admin") != 0 || argc < 2) return command_usage("the command is unknown");
    struct command_arguments words;
    if (!command_arguments_sort(argc - 2, argv + 2, &words))
        return command_usage("the arguments do not fit the command");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(config, &words);
    return command_usage("the admin command is unknown");
}
