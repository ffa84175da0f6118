#include "server/admin/command_storage.h"

#include <stdio.h>
#include <string.h>

#include "api/access/identity_store.h"
#include "base/mem.h"
#include "base/parse.h"
#include "server/admin/command_status.h"
#include "server/admin/command_subject.h"
#include "storage/reports/storage_usage_store.h"

struct subject {
    struct command_subject of;
    unsigned keep_days;
    struct storage_quota quota;
};

enum { KEEP_DAYS_MIN = 7, KEEP_DAYS_MAX = 36500 };

static void ask_set_retention(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    identity_store_set_history_keep(query->pg, subject->of.account_id, subject->keep_days, command_query_on_node,
                                    query);
}

int command_set_retention(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    uint64_t days = 0;
    if (words->plain_count != 1 || !account || !command_arguments_only(words, "|account|"))
        return command_usage("admin set-retention --account ACCOUNT DAYS|default");
    if (strcmp(words->plain[0], "default") != 0 &&
        parse_u64(str_c(words->plain[0]), KEEP_DAYS_MIN, KEEP_DAYS_MAX, &days, NULL) != ERROR_NONE)
        return command_usage("DAYS: a number between 7 and 36500, or default");
    struct subject subject = {.of.account = str_c(account), .keep_days = (unsigned)days};
    return command_subject_print(config, &subject.of, ask_set_retention);
}

// ---- storage quotas ------------------------------------------------------------------------------------------------

static void ask_set_quota(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_set_quota(query->pg, subject->of.account_id, &subject->quota, command_query_on_node, query);
}

static void ask_usage(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_get(query->pg, subject->of.account_id, command_query_on_node, query);
}

static void ask_recount(struct command_query *query, void *arg)
{
    struct subject *subject = arg;
    storage_usage_store_recount(query->pg, subject->of.account_id, command_query_on_node, query);
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

int command_set_quota(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    struct subject subject = {.of.account = str_c(account)};
    bool fits = take_quota(words, "bytes", true, &subject.quota.bytes);
    fits &= take_quota(words, "rows", false, &subject.quota.rows);
    fits &= take_quota(words, "runtime-bytes", true, &subject.quota.runtime_bytes);
    fits &= take_quota(words, "runtime-rows", false, &subject.quota.runtime_rows);
    if (!account || words->plain_count != 0 || !fits ||
        !command_arguments_only(words, "|account|bytes|rows|runtime-bytes|runtime-rows|"))
        return command_usage(
            "admin set-quota --account ACCOUNT [--bytes N|default] [--rows N|default] [--runtime-bytes N|default] "
            "[--runtime-rows N|default]; bytes as in 500MiB");
    return command_subject_print(config, &subject.of, ask_set_quota);
}

int command_show_usage(const struct config *config, const struct command_arguments *words)
{
    const char *account = command_arguments_option(words, "account");
    if (!account || words->plain_count != 0 || !command_arguments_only(words, "|account|recount|"))
        return command_usage("admin usage --account ACCOUNT [--recount]");
    struct subject subject = {.of.account = str_c(account)};
    return command_subject_print(config, &subject.of,
                                 command_arguments_option(words, "recount") ? ask_recount : ask_usage);
}
