// Hashes of runtime tokens at rest: a sealed one opens in its own row and with a key of this deployment alone; rows of
// older versions are read until they are rewritten, and then no plain hash is left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/access/identity_store.h"
#include "api/access/runtime_token_store.h"
#include "api/access/token_seal.h"
#include "base/parse.h"
#include "base/token.h"
#include "modules/runtimes/runtime_store.h"
#include "tests/unit/storage/database.h"

static const struct purpose_key key_old = {.bytes = {{1}}, .count = 1}, key_both = {.bytes = {{2}, {1}}, .count = 2},
                                key_new = {.bytes = {{2}}, .count = 1};

static void a_hash_opens_in_its_own_row_alone(void **state)
{
    (void)state;
    uint8_t hash[ID_SHA256_BYTES], sealed[TOKEN_SEAL_BYTES], out[ID_SHA256_BYTES];
    char hex[2 * TOKEN_SEAL_BYTES + 1];
    bool current;
    memset(hash, 7, sizeof hash);
    const struct token_place place = {STR("account"), STR("runtime"), STR("token")};
    const struct token_place others[] = {{STR("accoun"), STR("runtime"), STR("token")},
                                         {STR("account"), STR("runtime2"), STR("token")},
                                         {STR("account"), STR("runtime"), STR("other")},
                                         {STR("accountruntime"), STR_EMPTY, STR("token")}};
    struct str stored = token_seal(&key_old, &place, hash, sealed);
    assert_int_equal(stored.len, TOKEN_SEAL_BYTES);
    struct str text = str_of(hex, format_hex(sealed, sizeof sealed, hex));
    assert_true(token_unseal(&key_old, &place, text, out, &current) && current);
    assert_memory_equal(out, hash, sizeof hash);
    assert_true(token_unseal(&key_both, &place, text, out, &current) && !current);
    assert_false(token_unseal(&key_new, &place, text, out, &current));
    assert_false(token_unseal(NULL, &place, text, out, NULL));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(token_unseal(&key_old, &others[i], text, out, NULL));
    for (size_t i = 0; i < text.len; i++) {
        char was = hex[i];
        hex[i] = was == '0' ? '1' : '0';
        assert_false(token_unseal(&key_old, &place, text, out, NULL));
        hex[i] = was;
    }
    assert_false(token_unseal(&key_old, &place, STR_EMPTY, out, NULL));
    // As older versions wrote it, and where there is no key.
    stored = token_seal(NULL, &place, hash, sealed);
    assert_int_equal(stored.len, ID_SHA256_BYTES);
    text = str_of(hex, format_hex(hash, sizeof hash, hex));
    assert_true(token_unseal(&key_old, &place, text, out, &current) && !current);
}

// ---- in the database -----------------------------------------------------------------------------------------------

struct seen {
    struct database *database;
    bool is_done;
    size_t mine, sealed, unreadable;
    uint64_t change;
    size_t count;
    uint8_t sha256[ID_SHA256_BYTES]; // of the last of mine
};

static void on_rows(void *arg, const struct error *err, const struct runtime_token_row *rows, size_t count)
{
    struct seen *seen = arg;
    assert_null(err);
    for (size_t i = 0; i < count; i++) {
        seen->change = rows[i].change;
        if (!str_eq(rows[i].account_id, str_c(seen->database->account))) continue;
        seen->mine++;
        seen->sealed += rows[i].is_sealed;
        seen->unreadable += rows[i].unreadable;
        memcpy(seen->sha256, rows[i].token_sha256, sizeof seen->sha256);
    }
    seen->count = count;
    seen->is_done = true;
}

static bool is_done(void *arg)
{
    return ((struct seen *)arg)->is_done;
}

static struct pg *open_pg(struct database *database, const struct purpose_key *key)
{
    return pg_create(database->loop, &(struct pg_options){.conninfo = getenv("CULVERT_TEST_DATABASE_APP_URL"),
                                                          .connections = 1,
                                                          .queue_max = 200,
                                                          .statement_timeout_ms = 10000,
                                                          .column_key = key});
}

static void on_closed(void *arg)
{
    ((struct seen *)arg)->is_done = true;
}

static void close_pg(struct database *database, struct pg *pg)
{
    struct seen closed = {0};
    pg_close(pg, on_closed, &closed);
    database_run_until(database, is_done, &closed, 10);
}

// What the account's tokens look like with this key.
static struct seen look(struct database *database, const struct purpose_key *key)
{
    struct pg *pg = open_pg(database, key);
    struct seen seen = {.database = database};
    do {
        seen.is_done = false;
        runtime_token_store_changed(pg, seen.change, 1000, on_rows, &seen);
        database_run_until(database, is_done, &seen, 10);
    } while (seen.count == 1000);
    close_pg(database, pg);
    return seen;
}

static void create(struct database *database, const struct purpose_key *key, const char *runtime, struct token *token)
{
    char text[TOKEN_TEXT_BYTES];
    struct pg *pg = open_pg(database, key);
    token_generate(token, text);
    struct runtime_new wanted = {.name = str_c(runtime), .token_id = str_c(token->id)};
    memcpy(wanted.token_sha256, token->secret_sha256, sizeof wanted.token_sha256);
    struct answer answer;
    answer_init(&answer, database);
    runtime_store_create(pg, database->account, &wanted, answer_on_node, &answer);
    answer_wait(&answer);
    assert_int_equal(answer.code, ERROR_NONE);
    answer_finish(&answer);
    close_pg(database, pg);
}

static enum error_code seal_all(struct database *database, const struct purpose_key *key, uint64_t *out)
{
    struct pg *pg = open_pg(database, key);
    struct answer answer;
    answer_init(&answer, database);
    runtime_token_store_seal_all(pg, answer_on_count, &answer);
    answer_wait(&answer);
    *out = answer.count;
    enum error_code code = answer.code;
    answer_finish(&answer);
    close_pg(database, pg);
    return code;
}

struct authenticated {
    bool is_done, is_good;
};

static void on_principal(void *arg, const struct error *err, const struct principal *principal)
{
    struct authenticated *authenticated = arg;
    authenticated->is_good = !err && principal->kind == PRINCIPAL_RUNTIME;
    authenticated->is_done = true;
}

static bool is_authenticated(void *arg)
{
    return ((struct authenticated *)arg)->is_done;
}

static bool authenticates(struct database *database, const struct purpose_key *key, const struct token *token)
{
    struct pg *pg = open_pg(database, key);
    struct authenticated authenticated = {0};
    identity_store_authenticate(pg, token->id, token->secret_sha256, on_principal, &authenticated);
    database_run_until(database, is_authenticated, &authenticated, 10);
    close_pg(database, pg);
    return authenticated.is_good;
}

static void rows_of_older_versions_are_encrypted_and_keys_rotated(void **state)
{
    struct database *database = database_of(state);
    struct token plain, sealed;
    uint64_t count;
    create(database, NULL, "plain", &plain);
    struct seen seen = look(database, &key_old);
    assert_true(seen.mine == 1 && seen.sealed == 0 && seen.unreadable == 0);
    create(database, &key_old, "sealed", &sealed);
    seen = look(database, &key_old);
    assert_true(seen.mine == 2 && seen.sealed == 1 && seen.unreadable == 0);
    assert_memory_equal(seen.sha256, sealed.secret_sha256, sizeof seen.sha256);
    assert_true(authenticates(database, &key_old, &plain) && authenticates(database, &key_old, &sealed));
    assert_false(authenticates(database, &key_new, &sealed));
    seen = look(database, NULL);
    assert_true(seen.mine == 2 && seen.unreadable == 1);
    // Not with a key that cannot read what is there; what it can is done.
    assert_int_equal(seal_all(database, &key_new, &count), ERROR_INTERNAL);
    // With both.
    assert_int_equal(seal_all(database, &key_both, &count), ERROR_NONE);
    assert_true(count >= 1);
    seen = look(database, &key_new);
    assert_true(seen.mine == 2 && seen.sealed == 2 && seen.unreadable == 0);
    assert_int_equal(seal_all(database, &key_both, &count), ERROR_NONE);
    assert_int_equal(count, 0);
    assert_true(authenticates(database, &key_new, &plain) && authenticates(database, &key_new, &sealed));
    assert_false(authenticates(database, &key_old, &plain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hash_opens_in_its_own_row_alone),
        cmocka_unit_test(rows_of_older_versions_are_encrypted_and_keys_rotated),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
