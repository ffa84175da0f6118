// The deployment key: which files are refused, what is derived from it, and that nothing signed or
// encrypted is accepted after any change, in another place, for another purpose or by another key.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/deployment_key.h"
#include "base/parse.h"

static char folder[] = "/tmp/culvert-key.XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[64][128];
    static unsigned next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const void *bytes, size_t len, mode_t mode)
{
    const char *path = path_of(name);
    unlink(path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static struct deployment_key *load(const char *file, const char *previous)
{
    struct deployment_key *key = NULL;
    struct error err = {0};
    if (deployment_key_load(file, previous, &key, &err) != ERROR_NONE) fail_msg("%s", err.text);
    return key;
}

static const char random_text[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ";

static void assert_refused(const char *file, const char *previous, const char *word)
{
    struct deployment_key *key = NULL;
    struct error err = {0};
    assert_int_equal(deployment_key_load(file, previous, &key, &err), ERROR_INVALID);
    assert_null(key);
    if (!strstr(err.text, word)) fail_msg("\"%s\" is not in: %s", word, err.text);
    assert_null(strstr(err.text, random_text)); // never the key itself
}

static void unfit_files_are_refused(void **state)
{
    (void)state;
    char zeros[64] = {0}, large[5000];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)i;
    assert_refused("/nowhere/key", NULL, "/nowhere/key");
    assert_refused(folder, NULL, "regular");
    assert_refused(write_file("empty", "", 0, 0600), NULL, "0 bytes");
    assert_refused(write_file("newline", "\n", 1, 0600), NULL, "0 bytes");
    assert_refused(write_file("short", random_text, 31, 0600), NULL, "31 bytes");
    assert_refused(write_file("large", large, sizeof large, 0600), NULL, "or more");
    assert_refused(write_file("zeros", zeros, sizeof zeros, 0600), NULL, "not random");
    const mode_t open_modes[] = {0604, 0644, 0602, 0620, 0660, 0601, 0666, 0777};
    const char *fine = write_file("fine", random_text, 40, 0600);
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_refused(write_file("open", random_text, 40, open_modes[i]), NULL, "mode");
        assert_refused(fine, path_of("open"), "mode");
    }
    assert_refused(fine, path_of("absent"), "absent");
    const mode_t closed_modes[] = {0600, 0400, 0440, 0640};
    for (size_t i = 0; i < sizeof closed_modes / sizeof *closed_modes; i++)
        deployment_key_destroy(load(write_file("closed", random_text, 32, closed_modes[i]), fine));
}

static void a_created_file_is_private_and_never_replaced(void **state)
{
    (void)state;
    const char *path = path_of("created");
    struct error err;
    struct stat stat_of;
    mode_t mask = umask(0);
    assert_int_equal(deployment_key_create_file(path, &err), ERROR_NONE);
    umask(mask);
    assert_int_equal(stat(path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0600);
    assert_int_equal(stat_of.st_size, 65);
    assert_int_equal(deployment_key_create_file(path, &err), ERROR_CONFLICT);
    assert_int_equal(symlink(path_of("target"), path_of("link")), 0);
    assert_int_not_equal(deployment_key_create_file(path_of("link"), &err), ERROR_NONE);
    deployment_key_destroy(load(path, NULL));
}

// HKDF by another implementation (Python, hmac): salt "culvert deployment key v1", info "redis
// answers".
static void derived_keys_are_hkdf(void **state)
{
    (void)state;
    struct purpose_key one, other, newline;
    struct deployment_key *key = load(write_file("a", random_text, 32, 0600), NULL);
    deployment_key_derive(key, "redis answers", &one);
    deployment_key_derive(key, "redis answer", &other);
    char hex[2 * PURPOSE_KEY_BYTES + 1];
    format_hex(one.bytes[0], PURPOSE_KEY_BYTES, hex);
    assert_string_equal(hex, "093a2bddc2aee62a5e76b8d81e8f9ff1a9c24f7a8530df41d7f426debbf2a3f4");
    assert_memory_not_equal(one.bytes[0], other.bytes[0], PURPOSE_KEY_BYTES);
    assert_int_equal(one.count, 1);
    deployment_key_destroy(key);
    char with_newline[33];
    memcpy(with_newline, random_text, 32);
    with_newline[32] = '\n';
    key = load(write_file("b", with_newline, 33, 0600), NULL);
    deployment_key_derive(key, "redis answers", &newline);
    assert_memory_equal(one.bytes[0], newline.bytes[0], PURPOSE_KEY_BYTES);
    deployment_key_destroy(key);
}

static void make_keys(struct purpose_key *old, struct purpose_key *both, struct purpose_key *new_only)
{
    const char *a = write_file("old", random_text, 40, 0600), *b = write_file("new", random_text + 2, 40, 0600);
    struct deployment_key *key = load(a, NULL);
    deployment_key_derive(key, "test", old);
    deployment_key_destroy(key);
    key = load(b, a);
    deployment_key_derive(key, "test", both);
    deployment_key_destroy(key);
    key = load(b, NULL);
    deployment_key_derive(key, "test", new_only);
    deployment_key_destroy(key);
}

static void signatures_hold_for_their_parts_alone(void **state)
{
    (void)state;
    struct purpose_key old, both, new_only;
    make_keys(&old, &both, &new_only);
    uint8_t mac[PURPOSE_KEY_MAC_BYTES];
    const struct str parts[] = {STR("key"), STR("value"), STR("9")};
    purpose_key_sign(&old, parts, 3, mac);
    struct str text = str_of((const char *)mac, sizeof mac);
    assert_true(purpose_key_verify(&old, parts, 3, text));
    assert_true(purpose_key_verify(&both, parts, 3, text)); // the previous key
    assert_false(purpose_key_verify(&new_only, parts, 3, text));
    assert_false(purpose_key_verify(&old, parts, 2, text));
    assert_false(purpose_key_verify(&old, (const struct str[]){STR("keyv"), STR("alue"), STR("9")}, 3, text));
    assert_false(purpose_key_verify(&old, (const struct str[]){STR("value"), STR("key"), STR("9")}, 3, text));
    assert_false(purpose_key_verify(&old, parts, 3, str_first(text, 31)));
    assert_false(purpose_key_verify(&old, parts, 3, STR_EMPTY));
    for (size_t bit = 0; bit < 8 * sizeof mac; bit++) {
        mac[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(purpose_key_verify(&both, parts, 3, text));
        mac[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    purpose_key_sign(&both, parts, 3, mac); // new texts are signed by the current key
    assert_true(purpose_key_verify(&new_only, parts, 3, text));
}

static void sealed_texts_open_in_their_place_alone(void **state)
{
    (void)state;
    struct purpose_key old, both, new_only;
    make_keys(&old, &both, &new_only);
    static const char plain[] = "a secret answer";
    enum { PLAIN = sizeof plain - 1, SEALED = PLAIN + PURPOSE_KEY_SEAL_BYTES };
    uint8_t sealed[SEALED], again[SEALED], out[SEALED];
    bool current = true;
    purpose_key_seal(&old, STR("here"), STR("a secret answer"), sealed);
    purpose_key_seal(&old, STR("here"), STR("a secret answer"), again);
    assert_memory_not_equal(sealed, again, sizeof sealed);
    struct str text = str_of((const char *)sealed, sizeof sealed);
    for (size_t i = 0; i + 5 <= sizeof sealed; i++)
        assert_memory_not_equal(sealed + i, "secre", 5);
    assert_true(purpose_key_open(&both, STR("here"), text, out, &current));
    assert_false(current);
    assert_memory_equal(out, plain, PLAIN);
    assert_true(purpose_key_open(&old, STR("here"), text, out, &current));
    assert_true(current);
    assert_false(purpose_key_open(&old, STR("there"), text, out, NULL));
    assert_false(purpose_key_open(&old, STR_EMPTY, text, out, NULL));
    assert_false(purpose_key_open(&new_only, STR("here"), text, out, NULL));
    for (size_t len = 0; len < sizeof sealed; len++)
        assert_false(purpose_key_open(&old, STR("here"), str_first(text, len), out, NULL));
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) {
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(purpose_key_open(&both, STR("here"), text, out, NULL));
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    purpose_key_seal(&old, STR("here"), STR_EMPTY, sealed);
    assert_true(purpose_key_open(&old, STR("here"), str_first(text, PURPOSE_KEY_SEAL_BYTES), out, NULL));
}

int main(void)
{
    assert_non_null(mkdtemp(folder));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unfit_files_are_refused),
        cmocka_unit_test(a_created_file_is_private_and_never_replaced),
        cmocka_unit_test(derived_keys_are_hkdf),
        cmocka_unit_test(signatures_hold_for_their_parts_alone),
        cmocka_unit_test(sealed_texts_open_in_their_place_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return failed | (system(command) != 0);
}
