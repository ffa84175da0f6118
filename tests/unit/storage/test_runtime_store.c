#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/access/runtime_token_store.h"
#include "base/token.h"
#include "database.h"
#include "modules/runtimes/runtime_store.h"
#include "storage/sessions/session_store.h"

struct seen_tokens {
    struct answer answer;
    struct runtime_token_row rows[1000];
    char ids[1000][32];
    size_t count;    // of the test's own account: other tests use the database at the same time
    size_t of_all;   // with those
    uint64_t change; // the last one
};

static void on_tokens(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct seen_tokens *seen = arg;
    seen->of_all = count;
    if (count) seen->change = rows[count - 1].change;
    for (size_t i = 0; i < count; i++) {
        if (!str_eq(rows[i].account_id, str_c(seen->answer.database->account))) continue;
        seen->rows[seen->count] = rows[i];
        snprintf(seen->ids[seen->count++], 32, "%.*s", STR_ARG(rows[i].token_id));
    }
    answer_on_count(&seen->answer, err, 0);
}

static uint64_t read_tokens(struct database *database, uint64_t change, struct seen_tokens *seen)
{
    seen->count = 0;
    seen->change = change;
    answer_init(&seen->answer, database);
    runtime_token_store_changed(database->pg, change, 1000, on_tokens, seen);
    answer_wait(&seen->answer);
    assert_int_equal(seen->answer.code, ERROR_NONE);
    return seen->change;
}

static enum error_code create(struct database *database, const char *name, const struct token *token, bool recover)
{
    struct runtime_new runtime = {.name = str_c(name), .token_id = str_c(token->id), .recover = recover};
    memcpy(runtime.token_sha256, token->secret_sha256, sizeof runtime.token_sha256);
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_create(database->pg, database->account, &runtime, answer_on_node, &answer);
    answer_wait(&answer);
    enum error_code code = answer.code;
    answer_finish(&answer);
    return code;
}

static json_t *get(struct database *database, const char *name)
{
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_get(database->pg, database->account, str_c(name), answer_on_node, &answer);
    answer_wait(&answer);
    if (answer.code != ERROR_NONE) fail_msg("%s", answer.text);
    json_t *node = *answer.node ? json_loads(answer.node, JSON_REJECT_DUPLICATES, NULL) : NULL;
    answer_finish(&answer);
    return node;
}

static void assert_word(const json_t *node, const char *key, const char *word)
{
    const char *found = json_string_value(json_object_get(node, key));
    if (!found || strcmp(found, word) != 0) fail_msg("%s is %s, not %s", key, found ? found : "null", word);
}

static void the_second_of_a_name_needs_recover(void **state)
{
    struct database *database = database_of(state);
    static struct seen_tokens seen;
    struct token first, second, third;
    char text[TOKEN_TEXT_BYTES];
    token_generate(&first, text);
    token_generate(&second, text);
    token_generate(&third, text);
    uint64_t change = read_tokens(database, 0, &seen);
    while (seen.of_all == 1000)
        change = read_tokens(database, change, &seen);
    assert_int_equal(create(database, "prod", &first, false), ERROR_NONE);
    change = read_tokens(database, change, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], first.id);
    assert_false(seen.rows[0].revoked);
    assert_memory_equal(seen.rows[0].token_sha256, first.secret_sha256, 32);

    assert_int_equal(create(database, "prod", &second, false), ERROR_CONFLICT);
    change = read_tokens(database, change, &seen);
    assert_int_equal(seen.count, 0);

    assert_int_equal(create(database, "prod", &third, true), ERROR_NONE);
    change = read_tokens(database, change, &seen);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.ids[0], first.id);
    assert_true(seen.rows[0].revoked);
    assert_string_equal(seen.ids[1], third.id);
    assert_false(seen.rows[1].revoked);

    struct answer answer;
    answer_init(&answer, database);
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    read_tokens(database, change, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], third.id);
    assert_true(seen.rows[0].revoked);
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 0);
    answer_finish(&answer);
}

static void epochs_only_grow(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES], other_id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    assert_int_equal(database_open_session(database, "prod", id, "replica-a"), 1);
    assert_int_equal(database_open_session(database, "prod", id, "replica-b"), 2);
    char text[64];
    database_query(database->account, "SELECT close_reason FROM tunnel_sessions WHERE epoch = 1", text, sizeof text);
    assert_string_equal(text, "superseded");

    const char *open = "SELECT count(*) FROM tunnel_sessions WHERE closed_at IS NULL";
    database_close_session(database, "prod", 1, "late");
    database_query(database->account, open, text, sizeof text);
    assert_string_equal(text, "1");
    database_close_session(database, "prod", 2, "ended");
    database_query(database->account, open, text, sizeof text);
    assert_string_equal(text, "0");

    // A runtime made anew under the name starts above; the old one's id opens nothing.
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_delete(database->pg, database->account, STR("prod"), answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    assert_int_equal(database_open_session(database, "prod", id, "replica-a"), 0);
    database_make_runtime(database, "prod", other_id);
    assert_int_equal(database_open_session(database, "prod", id, "replica-a"), 0);
    assert_int_equal(database_open_session(database, "prod", other_id, "replica-a"), 3);
}

static void a_runtime_is_online_with_a_session_and_a_lease(void **state)
{
    struct database *database = database_of(state);
    struct answer answer;
    char id[ID_UUID_BYTES], replica[64];
    snprintf(replica, sizeof replica, "replica-%s", database->account);
    database_make_runtime(database, "prod", id);
    json_t *node = get(database, "prod");
    assert_word(node, "installationStatus", "IN_PROGRESS");
    assert_word(node, "healthStatus", "DEGRADED");
    assert_word(node, "freshness", "disconnected");
    assert_true(json_is_false(json_object_get(node, "online")));
    json_decref(node);

    database_open_session(database, "prod", id, replica);
    node = get(database, "prod");
    assert_word(node, "installationStatus", "COMPLETED");
    assert_word(node, "healthStatus", "HEALTHY");
    assert_word(node, "syncStatus", "SYNCED");
    assert_word(node, "freshness", "live");
    assert_true(json_is_true(json_object_get(node, "online")));
    assert_word(node, "agentVersion", "1.2.3");
    json_decref(node);

    // The lease of the replica ends: so do its sessions.
    answer_init(&answer, database);
    session_store_renew(database->pg, str_c(replica), 0, STR_EMPTY, 5000, answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    node = get(database, "prod");
    assert_true(json_is_false(json_object_get(node, "online")));
    assert_word(node, "healthStatus", "DEGRADED");
    json_decref(node);

    session_store_renew(database->pg, str_c(replica), 15000, STR_EMPTY, 5000, answer_on_count, &answer);
    answer_wait(&answer);
    answer_finish(&answer);
    node = get(database, "prod");
    assert_true(json_is_true(json_object_get(node, "online")));
    json_decref(node);

    session_store_forget_replica(database->pg, str_c(replica), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    assert_int_equal(answer.count, 1);
    answer_finish(&answer);
    node = get(database, "prod");
    assert_true(json_is_false(json_object_get(node, "online")));
    json_decref(node);
}

static void non_null_fields_are_there(void **state)
{
    static const char *const fields[] = {"metadata",
                                         "errors",
                                         "syncStatus",
                                         "managed",
                                         "isRemoteClusterConnected",
                                         "runtimeRelease",
                                         "features",
                                         "installationStatus",
                                         "managedClusters",
                                         "available",
                                         "managedClustersNum",
                                         "status",
                                         "self",
                                         "isConfigurationRuntime",
                                         "isSkippedConfiguringAsArgoApp"};
    static const char *const metadata[] = {"group", "version", "kind", "name", "runtime", "account", "namespace"};
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "prod", id);
    json_t *node = get(database, "prod");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!json_object_get(node, fields[i]) || json_is_null(json_object_get(node, fields[i])))
            fail_msg("%s is null", fields[i]);
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++)
        if (!json_is_string(json_path(node, "metadata", metadata[i], NULL))) fail_msg("%s is null", metadata[i]);
    json_decref(node);
    assert_null(get(database, "nowhere"));
}

static void list(struct database *database, const char *after, unsigned first, const char *before, unsigned last,
                 struct answer *answer)
{
    struct store_page page = {str_c(after), str_c(before), first, last, 0};
    answer_init(answer, database);
    runtime_store_list(database->pg, database->account, &page, answer_on_slice, answer);
    answer_wait(answer);
    assert_int_equal(answer->code, ERROR_NONE);
}

static const char *name_at(const struct answer *answer, size_t i)
{
    return json_string_value(json_path(json_array_get(answer->nodes, i), "metadata", "name", NULL));
}

static void pages_follow_each_other(void **state)
{
    struct database *database = database_of(state);
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    char id[ID_UUID_BYTES];
    for (size_t i = 0; i < 5; i++)
        database_make_runtime(database, names[i], id);
    struct answer all, answer;
    list(database, "", 0, "", 0, &all);
    assert_int_equal(json_array_size(all.nodes), 5);
    assert_false(all.has_next || all.has_prev);
    list(database, "", 2, "", 0, &answer);
    assert_int_equal(json_array_size(answer.nodes), 2);
    assert_true(answer.has_next);
    assert_string_equal(name_at(&answer, 1), "b");
    char cursor[256];
    snprintf(cursor, sizeof cursor, "%s", answer.cursors[1]);
    answer_finish(&answer);
    list(database, cursor, 10, "", 0, &answer);
    assert_int_equal(json_array_size(answer.nodes), 3);
    assert_string_equal(name_at(&answer, 0), "c");
    assert_false(answer.has_next);
    assert_true(answer.has_prev);
    answer_finish(&answer);
    list(database, "", 0, all.cursors[3], 2, &answer);
    assert_int_equal(json_array_size(answer.nodes), 2);
    assert_string_equal(name_at(&answer, 0), "b");
    assert_string_equal(name_at(&answer, 1), "c");
    assert_true(answer.has_prev && answer.has_next);
    answer_finish(&answer);
    answer_finish(&all);

    struct store_page page = {.after = STR("not a cursor")};
    answer_init(&answer, database);
    runtime_store_list(database->pg, database->account, &page, answer_on_slice, &answer);
    assert_false(answer.is_done); // never inside the call
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_INVALID);
    answer_finish(&answer);
}

static void an_account_sees_only_its_own(void **state)
{
    struct database *database = database_of(state);
    char id[ID_UUID_BYTES];
    database_make_runtime(database, "mine", id);
    database_of(state); // from here on as somebody else
    struct answer answer;
    list(database, "", 0, "", 0, &answer);
    assert_int_equal(json_array_size(answer.nodes), 0);
    answer_finish(&answer);
    assert_null(get(database, "mine"));
    answer_init(&answer, database);
    runtime_store_delete(database->pg, database->account, STR("mine"), answer_on_count, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.count, 0);
    answer_finish(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_of_a_name_needs_recover),
        cmocka_unit_test(epochs_only_grow),
        cmocka_unit_test(a_runtime_is_online_with_a_session_and_a_lease),
        cmocka_unit_test(non_null_fields_are_there),
        cmocka_unit_test(pages_follow_each_other),
        cmocka_unit_test(an_account_sees_only_its_own),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
