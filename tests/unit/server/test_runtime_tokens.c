// runtime_tokens: who may dial in, decided from memory while the table is being refreshed. The
// store is a fake.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/token.h"
#include "server/chores/runtime_tokens.h"
#include "tunnel/wire/proof.h"

enum { TOKENS = 3000, ROUNDS = 40, ASKERS = 3, ROWS_MAX = 1000 };

struct known {
    char text[TOKEN_TEXT_BYTES];
    struct token token;
    bool made, revoked;
    int64_t expires_at_ms; // by the clock of the test; 0: never
    uint64_t change;
};

struct bench {
    struct loop *loop;
    struct runtime_tokens *tokens;
    struct known *known;
    uint64_t change;
    // The question that waits for its answer.
    runtime_tokens_done on_done;
    void *arg;
    uint64_t since;
    size_t asked;
    size_t revocations;
    char revoked_id[32];
    bool at_once; // the fake answers inside the call
    uint64_t now_ms;
    char ended_reason[64];
    size_t uses, use_writes;
    char used_id[32];
};

static struct bench *bench;
static unsigned bench_sessions_per_minute;

static void answer(enum error_code code)
{
    struct runtime_token_row *rows = mem_array(ROWS_MAX, sizeof *rows);
    size_t count = 0;
    // In the order of changes, as the store gives them.
    uint64_t last = bench->since;
    for (bool found = !code; found && count < ROWS_MAX;) {
        struct known *next = NULL;
        for (size_t i = 0; i < TOKENS; i++)
            if (bench->known[i].change > last && (!next || bench->known[i].change < next->change))
                next = &bench->known[i];
        found = next != NULL;
        if (!next) break;
        last = next->change;
        struct runtime_token_row *row = &rows[count++];
        *row = (struct runtime_token_row){.change = next->change,
                                          .token_id = str_c(next->token.id),
                                          .account_id = STR("account"),
                                          .runtime = STR("runtime"),
                                          .runtime_id = STR("id"),
                                          .revoked = next->revoked};
        row->expires = row->warns = next->expires_at_ms != 0;
        row->expires_in_ms = next->expires_at_ms - (int64_t)bench->now_ms;
        row->warns_in_ms = row->expires_in_ms - 1000;
        memcpy(row->token_sha256, next->token.secret_sha256, sizeof row->token_sha256);
    }
    struct error err;
    error_set(&err, code, "as the test says");
    runtime_tokens_done on_done = bench->on_done;
    assert_non_null(on_done);
    bench->on_done = NULL;
    on_done(bench->arg, code ? &err : NULL, rows, count);
    mem_free(rows);
}

static void tokens_changed(struct pg *pg, uint64_t change, unsigned limit, runtime_tokens_done on_done, void *arg)
{
    (void)pg;
    assert_int_equal(limit, ROWS_MAX);
    assert_null(bench->on_done); // one at a time
    bench->on_done = on_done;
    bench->arg = arg;
    bench->since = change;
    bench->asked++;
    if (bench->at_once) answer(ERROR_NONE);
}

static void on_ended(void *ctx, const struct tunnel_identity *identity, const char *reason)
{
    snprintf(((struct bench *)ctx)->ended_reason, sizeof bench->ended_reason, "%s", reason);
    struct bench *of = ctx;
    of->revocations++;
    snprintf(of->revoked_id, sizeof of->revoked_id, "%s", identity->token_id);
    assert_string_equal(identity->account_id, "account");
    assert_string_equal(identity->runtime, "runtime");
}

static uint64_t now(void)
{
    return bench->now_ms;
}

static void note_use(struct pg *pg, const char *const *token_ids, size_t count, store_count_done on_done, void *arg)
{
    (void)pg;
    bench->use_writes++;
    bench->uses += count;
    snprintf(bench->used_id, sizeof bench->used_id, "%s", token_ids[count - 1]);
    on_done(arg, NULL, count);
}

static void set_up(uint64_t refresh_ms)
{
    bench = mem_zalloc(sizeof *bench);
    bench->known = mem_array(TOKENS, sizeof *bench->known);
    for (size_t i = 0; i < TOKENS; i++)
        token_generate(&bench->known[i].token, bench->known[i].text);
    bench->now_ms = 1000 * 1000;
    bench->loop = loop_create("test", 0);
    bench->tokens =
        runtime_tokens_create(&(struct runtime_tokens_options){.refresh_ms = refresh_ms,
                                                               .sessions_per_minute = bench_sessions_per_minute,
                                                               .used_interval_ms = 60 * 1000,
                                                               .now_ms = now,
                                                               .note_use = note_use,
                                                               .on_ended = on_ended,
                                                               .ctx = bench,
                                                               .tokens_changed = tokens_changed});
}

static void tear_down(void)
{
    runtime_tokens_stop(bench->tokens);
    loop_stop(bench->loop);
    loop_run(bench->loop);
    loop_destroy(bench->loop);
    runtime_tokens_destroy(bench->tokens);
    mem_free(bench->known);
    mem_free(bench);
}

static void turn(void)
{
    uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
}

static void run_until_asked(size_t asked)
{
    while (bench->asked < asked) // never blocking: the timer of an hour may be all that is left
        uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
}

static void make_token(size_t i)
{
    bench->known[i].made = true;
    bench->known[i].change = ++bench->change;
}

static void revoke_token(size_t i)
{
    bench->known[i].revoked = true;
    bench->known[i].change = ++bench->change;
}

static enum error_code ask(size_t i)
{
    const struct tunnel_credential credential = {.token = str_c(bench->known[i].text)};
    struct tunnel_identity identity;
    struct error err;
    enum error_code code = runtime_tokens_authenticate(bench->tokens, &credential, &identity, &err);
    if (code == ERROR_NONE) {
        assert_string_equal(identity.token_id, bench->known[i].token.id);
        assert_memory_equal(identity.token_sha256, bench->known[i].token.secret_sha256, ID_SHA256_BYTES);
    } else {
        assert_null(strstr(err.text, bench->known[i].text + 25)); // the secret
    }
    return code;
}

static enum error_code ask_with(const char *token, const uint8_t *binding)
{
    const struct tunnel_credential credential = {.token = str_c(token), .binding = binding};
    struct tunnel_identity identity;
    struct error err;
    return runtime_tokens_authenticate(bench->tokens, &credential, &identity, &err);
}

static void unknown_until_a_later_refresh(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    assert_int_equal(ask(0), ERROR_UNAVAILABLE); // not even started
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    assert_int_equal(ask(0), ERROR_UNAVAILABLE);
    assert_int_equal(ask(1), ERROR_UNAVAILABLE); // asked while the first refresh is under way
    answer(ERROR_NONE);
    assert_int_equal(ask(0), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask(1), ERROR_UNAVAILABLE); // that one may have looked too early
    run_until_asked(2);                          // asking has made the next one begin
    assert_int_equal(ask(1), ERROR_UNAVAILABLE);
    answer(ERROR_UNAVAILABLE); // it failed: nothing is known
    assert_int_equal(ask(1), ERROR_UNAVAILABLE);
    run_until_asked(3);
    answer(ERROR_NONE);
    assert_int_equal(ask(1), ERROR_UNAUTHENTICATED);
    // Made meanwhile: the next refresh brings it, also after a refusal.
    make_token(1);
    runtime_tokens_refresh(bench->tokens);
    run_until_asked(4);
    answer(ERROR_NONE);
    assert_int_equal(ask(1), ERROR_NONE);
    tear_down();
}

static void malformed_and_wrong(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    make_token(0);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    answer(ERROR_NONE);
    struct error err;
    const char *bad[] = {"", "x", "0123456789abcdef01234567.", "0123456789abcdef01234567"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ask_with(bad[i], NULL), ERROR_UNAUTHENTICATED);
    char wrong[TOKEN_TEXT_BYTES];
    memcpy(wrong, bench->known[0].text, sizeof wrong);
    wrong[TOKEN_TEXT_BYTES - 2] = wrong[TOKEN_TEXT_BYTES - 2] == '0' ? '1' : '0';
    assert_int_equal(ask_with(wrong, NULL), ERROR_UNAUTHENTICATED);
    // Sealed for this connection, for another one, and one taken for the other.
    const uint8_t binding[WIRE_BINDING_BYTES] = {1}, other[WIRE_BINDING_BYTES] = {2};
    char sealed[TOKEN_TEXT_BYTES];
    assert_int_equal(wire_proof_seal(str_c(bench->known[0].text), binding, sealed, &err), ERROR_NONE);
    assert_int_equal(ask_with(sealed, binding), ERROR_NONE);
    assert_int_equal(ask_with(sealed, other), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask_with(sealed, NULL), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask_with(bench->known[0].text, binding), ERROR_UNAUTHENTICATED);
    assert_int_equal(wire_proof_seal(str_c(wrong), binding, sealed, &err), ERROR_NONE);
    assert_int_equal(ask_with(sealed, binding), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask(0), ERROR_NONE);
    turn();
    assert_int_equal(bench->asked, 1); // a wrong secret asks nobody
    tear_down();
}

static void revocation(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    make_token(0);
    make_token(1);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    answer(ERROR_NONE);
    revoke_token(0);
    revoke_token(5); // never seen valid here: nobody to tell
    runtime_tokens_refresh(bench->tokens);
    run_until_asked(2);
    assert_int_equal(ask(0), ERROR_NONE);
    answer(ERROR_NONE);
    assert_int_equal(bench->revocations, 1);
    assert_string_equal(bench->revoked_id, bench->known[0].token.id);
    assert_int_equal(ask(1), ERROR_NONE);
    assert_int_not_equal(ask(0), ERROR_NONE);
    turn();
    answer(ERROR_NONE);
    assert_int_equal(ask(0), ERROR_UNAUTHENTICATED);
    tear_down();
}

static bool has(size_t i)
{
    struct tunnel_identity identity = {0};
    snprintf(identity.token_id, sizeof identity.token_id, "%s", bench->known[i].token.id);
    return runtime_tokens_has(bench->tokens, &identity);
}

static bool knows(const char *account_id, const char *runtime)
{
    return runtime_tokens_knows(bench->tokens, &(struct runtime_key){str_c(account_id), str_c(runtime)});
}

static void refresh_and_answer(void)
{
    size_t asked = bench->asked;
    runtime_tokens_refresh(bench->tokens);
    run_until_asked(asked + 1);
    answer(ERROR_NONE);
}

// A runtime is known while one of its tokens is valid.
static void runtimes_are_known_by_their_tokens(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    assert_true(knows("account", "runtime")); // nobody has looked yet
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    answer(ERROR_NONE);
    assert_false(knows("account", "runtime"));
    assert_false(has(0));
    make_token(0);
    make_token(1);
    refresh_and_answer();
    assert_true(has(0) && has(1) && !has(2));
    assert_true(knows("account", "runtime"));
    assert_false(knows("account", "runtim"));
    assert_false(knows("accountr", "untime"));
    assert_false(knows("runtime", "account"));
    make_token(0); // told again
    refresh_and_answer();
    revoke_token(0);
    refresh_and_answer();
    assert_true(!has(0) && has(1));
    assert_true(knows("account", "runtime"));
    revoke_token(1);
    refresh_and_answer();
    assert_false(has(1));
    assert_false(knows("account", "runtime"));
    tear_down();
}

static void many_against_a_model(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    bench->at_once = true;
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    unsigned random = 1;
    size_t gone = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 200; i++) {
            random = random * 1664525u + 1013904223u;
            struct known *known = &bench->known[(random >> 8) % TOKENS];
            if (!known->made)
                make_token((size_t)(known - bench->known));
            else if (!known->revoked && random % 3 == 0) {
                revoke_token((size_t)(known - bench->known));
                gone++;
            }
        }
        size_t asked = bench->asked;
        runtime_tokens_refresh(bench->tokens);
        run_until_asked(asked + 1);
        for (size_t i = 0; i < TOKENS; i += 7) {
            bool valid = bench->known[i].made && !bench->known[i].revoked;
            assert_int_equal(ask(i) == ERROR_NONE, valid);
        }
    }
    for (size_t i = 0; i < TOKENS; i++)
        assert_int_equal(ask(i) == ERROR_NONE, bench->known[i].made && !bench->known[i].revoked);
    // Made and revoked between two refreshes: never valid here.
    assert_true(bench->revocations <= gone && bench->revocations > gone / 2);
    tear_down();
}

static void pages(void **state)
{
    (void)state;
    set_up(3600 * 1000);
    for (size_t i = 0; i < 2500; i++)
        make_token(i);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    assert_int_equal(ask(2600), ERROR_UNAVAILABLE);
    answer(ERROR_NONE);
    assert_int_equal(bench->asked, 2); // the next page at once
    assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(ask(2600), ERROR_UNAVAILABLE);
    answer(ERROR_NONE);
    answer(ERROR_NONE);
    assert_int_equal(ask(2499), ERROR_NONE);
    assert_int_equal(ask(2600), ERROR_UNAUTHENTICATED);
    tear_down();
}

// ---- time ----------------------------------------------------------------------------------------------------------

static enum error_code find(size_t i, const uint8_t *secret_sha256)
{
    struct token token = bench->known[i].token;
    struct runtime_tokens_found found;
    if (secret_sha256) memcpy(token.secret_sha256, secret_sha256, sizeof token.secret_sha256);
    enum error_code code = runtime_tokens_find(bench->tokens, &token, &found, NULL);
    if (code == ERROR_NONE) assert_string_equal(found.identity.runtime, "runtime");
    return code;
}

static void expire_token(size_t i, int64_t in_ms)
{
    bench->known[i].made = true;
    bench->known[i].expires_at_ms = (int64_t)bench->now_ms + in_ms;
    bench->known[i].change = ++bench->change;
}

// Until the timer has looked at the clock twice.
static void let_it_look(void)
{
    bench->at_once = true;
    run_until_asked(bench->asked + 2);
}

static void expiry_without_the_database(void **state)
{
    (void)state;
    set_up(1);
    expire_token(0, 5000);
    expire_token(1, 60000);
    expire_token(2, -5000);
    make_token(3);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    run_until_asked(1);
    answer(ERROR_NONE);
    assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(find(0, NULL), ERROR_NONE);
    assert_int_equal(ask(2), ERROR_UNAUTHENTICATED);
    assert_int_equal(find(2, NULL), ERROR_UNAUTHENTICATED);
    assert_int_equal(bench->revocations, 0); // had no session here
    bench->now_ms += 5000;
    // At once, before anybody has looked at the clock.
    assert_int_equal(ask(0), ERROR_UNAUTHENTICATED);
    assert_int_equal(find(0, NULL), ERROR_UNAUTHENTICATED);
    assert_false(has(0));
    run_until_asked(2); // and the database answers nothing any more
    while (!bench->revocations)
        uv_run(loop_uv(bench->loop), UV_RUN_NOWAIT);
    assert_int_equal(bench->revocations, 1);
    assert_string_equal(bench->revoked_id, bench->known[0].token.id);
    assert_string_equal(bench->ended_reason, "the runtime token has expired");
    assert_int_equal(ask(1), ERROR_NONE);
    assert_int_equal(ask(3), ERROR_NONE);
    assert_true(knows("account", "runtime"));
    // Who knows the secret is told why; who does not, is not.
    const struct tunnel_credential right = {.token = str_c(bench->known[0].text)};
    struct tunnel_identity identity;
    struct error err;
    assert_int_equal(runtime_tokens_authenticate(bench->tokens, &right, &identity, &err), ERROR_UNAUTHENTICATED);
    assert_non_null(strstr(err.text, "expired"));
    char wrong[TOKEN_TEXT_BYTES];
    memcpy(wrong, bench->known[0].text, sizeof wrong);
    wrong[TOKEN_TEXT_BYTES - 2] = wrong[TOKEN_TEXT_BYTES - 2] == '0' ? '1' : '0';
    const struct tunnel_credential other = {.token = str_c(wrong)};
    assert_int_equal(runtime_tokens_authenticate(bench->tokens, &other, &identity, &err), ERROR_UNAUTHENTICATED);
    assert_null(strstr(err.text, "expired"));
    answer(ERROR_UNAVAILABLE); // the question that is still under way
    tear_down();
}

static void a_rotation_ends_the_old_one_later(void **state)
{
    (void)state;
    set_up(1);
    make_token(0);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    let_it_look();
    make_token(1);
    expire_token(0, 5000); // the rotation
    let_it_look();
    assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(ask(1), ERROR_NONE);
    bench->now_ms += 5000;
    let_it_look();
    assert_int_equal(bench->revocations, 1);
    assert_int_equal(ask(0), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask(1), ERROR_NONE);
    // Taken back by hand: it is valid again, and ends once more.
    expire_token(0, 5000);
    let_it_look();
    assert_int_equal(ask(0), ERROR_NONE);
    bench->now_ms += 5000;
    let_it_look();
    assert_int_equal(bench->revocations, 2);
    revoke_token(1);
    let_it_look();
    assert_string_equal(bench->ended_reason, "the runtime token was revoked");
    assert_false(knows("account", "runtime"));
    tear_down();
}

static void found_for_requests(void **state)
{
    (void)state;
    set_up(1);
    make_token(0);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    assert_int_equal(find(0, NULL), ERROR_NOT_FOUND);
    let_it_look();
    assert_int_equal(find(0, NULL), ERROR_NONE);
    assert_int_equal(find(1, NULL), ERROR_NOT_FOUND);
    assert_int_equal(find(0, bench->known[1].token.secret_sha256), ERROR_UNAUTHENTICATED);
    tear_down();
}

static void sessions_a_minute(void **state)
{
    (void)state;
    bench_sessions_per_minute = 100;
    set_up(1);
    bench_sessions_per_minute = 0;
    make_token(0);
    make_token(1);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    let_it_look();
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(ask(0), ERROR_LIMITED);
    assert_int_equal(find(0, NULL), ERROR_NONE); // requests are no sessions
    assert_int_equal(ask(1), ERROR_NONE);        // of another token
    // Those who do not have the secret take nothing of it.
    char wrong[TOKEN_TEXT_BYTES];
    memcpy(wrong, bench->known[1].text, sizeof wrong);
    wrong[TOKEN_TEXT_BYTES - 2] = wrong[TOKEN_TEXT_BYTES - 2] == '0' ? '1' : '0';
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(ask_with(wrong, NULL), ERROR_UNAUTHENTICATED);
    assert_int_equal(ask(1), ERROR_NONE);
    bench->now_ms += 601;
    assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(ask(0), ERROR_LIMITED);
    bench->now_ms += 10 * 60 * 1000;
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(ask(0), ERROR_NONE);
    assert_int_equal(ask(0), ERROR_LIMITED);
    tear_down();
}

static void uses_are_written_together(void **state)
{
    (void)state;
    set_up(1);
    for (size_t i = 0; i < 2500; i++)
        make_token(i);
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    let_it_look();
    let_it_look();
    assert_int_equal(ask(7), ERROR_NONE);
    assert_int_equal(find(7, NULL), ERROR_NONE);
    assert_int_equal(find(8, bench->known[1].token.secret_sha256), ERROR_UNAUTHENTICATED);
    let_it_look();
    assert_int_equal(bench->use_writes, 0);
    bench->now_ms += 60 * 1000;
    let_it_look();
    assert_int_equal(bench->uses, 1);
    assert_string_equal(bench->used_id, bench->known[7].token.id);
    bench->now_ms += 60 * 1000;
    let_it_look();
    assert_int_equal(bench->use_writes, 1);
    for (size_t i = 0; i < 2500; i++)
        runtime_tokens_note_use(bench->tokens, bench->known[i].token.id);
    bench->now_ms += 60 * 1000;
    let_it_look();
    assert_int_equal(bench->uses, 1 + 2500);
    assert_int_equal(bench->use_writes, 1 + 3);
    tear_down();
}

// ---- many threads --------------------------------------------------------------------------------------------------

struct asker {
    uv_thread_t thread;
    size_t first;
    size_t valid, others;
    atomic_bool *stop;
};

static void keep_asking(void *arg)
{
    struct asker *asker = arg;
    for (size_t i = asker->first; !atomic_load(asker->stop); i = (i + ASKERS) % 1500) {
        if (ask(i) == ERROR_NONE)
            asker->valid++;
        else
            asker->others++;
    }
}

static void asked_from_many_threads(void **state)
{
    (void)state;
    set_up(1);
    bench->at_once = true;
    for (size_t i = 0; i < 1000; i++)
        make_token(i);
    atomic_bool stop = false;
    struct asker askers[ASKERS] = {0};
    for (size_t i = 0; i < ASKERS; i++) {
        askers[i].first = i;
        askers[i].stop = &stop;
        assert_int_equal(uv_thread_create(&askers[i].thread, keep_asking, &askers[i]), 0);
    }
    runtime_tokens_start(bench->tokens, bench->loop, NULL);
    for (size_t round = 0; round < 100; round++) {
        revoke_token(round);
        run_until_asked(bench->asked + 1);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < ASKERS; i++)
        uv_thread_join(&askers[i].thread);
    run_until_asked(bench->asked + 1);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(ask(i) == ERROR_NONE, i >= 100);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_until_a_later_refresh),
        cmocka_unit_test(malformed_and_wrong),
        cmocka_unit_test(revocation),
        cmocka_unit_test(runtimes_are_known_by_their_tokens),
        cmocka_unit_test(many_against_a_model),
        cmocka_unit_test(pages),
        cmocka_unit_test(expiry_without_the_database),
        cmocka_unit_test(a_rotation_ends_the_old_one_later),
        cmocka_unit_test(found_for_requests),
        cmocka_unit_test(sessions_a_minute),
        cmocka_unit_test(uses_are_written_together),
        cmocka_unit_test(asked_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
