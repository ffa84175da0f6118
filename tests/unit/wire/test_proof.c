// Tokens that are sealed for one connection, and the platform's proof.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "tunnel/wire/proof.h"

enum { ROUNDS = 200 };

static void test_only_the_platform_reads_it_and_only_here(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct token token, other, read;
        char text[TOKEN_TEXT_BYTES], other_text[TOKEN_TEXT_BYTES], sealed[TOKEN_TEXT_BYTES], again[TOKEN_TEXT_BYTES];
        uint8_t binding[WIRE_BINDING_BYTES], elsewhere[WIRE_BINDING_BYTES];
        struct error err;
        token_generate(&token, text);
        token_generate(&other, other_text);
        id_random(binding, sizeof binding);
        memcpy(elsewhere, binding, sizeof elsewhere);
        elsewhere[round % WIRE_BINDING_BYTES] ^= (uint8_t)(1u << round % 8);

        assert_int_equal(wire_proof_seal(str_c(text), binding, sealed, &err), ERROR_NONE);
        assert_int_equal(strlen(sealed), TOKEN_TEXT_BYTES - 1);
        assert_memory_equal(sealed, text, TOKEN_ID_BYTES); // who it is, and the dot
        assert_string_not_equal(sealed, text);
        assert_int_equal(wire_proof_seal(str_c(text), elsewhere, again, &err), ERROR_NONE);
        assert_string_not_equal(sealed, again);

        assert_int_equal(wire_proof_unseal(str_c(sealed), token.secret_sha256, binding, &read, &err), ERROR_NONE);
        assert_string_equal(read.id, token.id);
        assert_memory_equal(read.secret_sha256, token.secret_sha256, ID_SHA256_BYTES);
        assert_int_equal(wire_proof_unseal(str_c(sealed), token.secret_sha256, elsewhere, &read, &err), ERROR_NONE);
        assert_memory_not_equal(read.secret_sha256, token.secret_sha256, ID_SHA256_BYTES);
        assert_int_equal(wire_proof_unseal(str_c(sealed), other.secret_sha256, binding, &read, &err), ERROR_NONE);
        assert_memory_not_equal(read.secret_sha256, token.secret_sha256, ID_SHA256_BYTES);
    }
}

static void test_the_platform_proves_what_it_knows(void **state)
{
    (void)state;
    uint8_t key[ID_SHA256_BYTES], binding[WIRE_BINDING_BYTES];
    char proof[WIRE_PROOF_BYTES];
    id_random(key, sizeof key);
    id_random(binding, sizeof binding);
    wire_proof_make(key, binding, proof);
    assert_int_equal(strlen(proof), WIRE_PROOF_BYTES - 1);
    assert_true(wire_proof_is_good(str_c(proof), key, binding));
    assert_false(wire_proof_is_good(STR_EMPTY, key, binding));
    assert_false(wire_proof_is_good(str_of(proof, 10), key, binding));
    key[0] ^= 1;
    assert_false(wire_proof_is_good(str_c(proof), key, binding));
    key[0] ^= 1;
    binding[31] ^= 1;
    assert_false(wire_proof_is_good(str_c(proof), key, binding));
}

static void test_what_is_no_token(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "x", "0123456789abcdef01234567.", "0123456789abcdef01234567.zz"};
    const uint8_t key[ID_SHA256_BYTES] = {1}, binding[WIRE_BINDING_BYTES] = {2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char sealed[TOKEN_TEXT_BYTES];
        struct token token;
        struct error err;
        assert_int_equal(wire_proof_seal(str_c(bad[i]), binding, sealed, &err), ERROR_INVALID);
        assert_int_equal(wire_proof_unseal(str_c(bad[i]), key, binding, &token, &err), ERROR_INVALID);
    }
}

static void test_a_covered_hash_is_for_one_key_and_connection(void **state)
{
    (void)state;
    uint8_t key[ID_SHA256_BYTES], binding[WIRE_BINDING_BYTES], hash[ID_SHA256_BYTES], covered[ID_SHA256_BYTES];
    id_random(key, sizeof key);
    id_random(binding, sizeof binding);
    id_random(hash, sizeof hash);
    memcpy(covered, hash, sizeof hash);
    wire_proof_cover(covered, key, binding);
    assert_memory_not_equal(covered, hash, sizeof hash);
    for (unsigned part = 0; part < 3; part++) {
        uint8_t read[ID_SHA256_BYTES];
        memcpy(read, covered, sizeof read);
        key[part] ^= part == 1;
        binding[part] ^= part == 2;
        wire_proof_cover(read, key, binding);
        assert_int_equal(memcmp(read, hash, sizeof hash) == 0, part == 0);
        key[part] ^= part == 1;
        binding[part] ^= part == 2;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_platform_reads_it_and_only_here),
        cmocka_unit_test(test_the_platform_proves_what_it_knows),
        cmocka_unit_test(test_what_is_no_token),
        cmocka_unit_test(test_a_covered_hash_is_for_one_key_and_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
