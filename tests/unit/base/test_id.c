// Hashes against the published vectors, and what ids look like.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/id.h"
#include "base/parse.h"

static void assert_hex(const uint8_t *raw, const char *expected)
{
    char hex[2 * ID_SHA256_BYTES + 1];
    format_hex(raw, ID_SHA256_BYTES, hex);
    assert_string_equal(hex, expected);
}

// FIPS 180-2 appendix B.
static void test_sha256(void **state)
{
    uint8_t out[ID_SHA256_BYTES];
    (void)state;
    id_sha256("abc", 3, out);
    assert_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    id_sha256(NULL, 0, out);
    assert_hex(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// RFC 4231 sections 4.2, 4.3 and 4.7: a short key, a shorter one, and one longer than a block.
static void test_hmac_sha256(void **state)
{
    uint8_t out[ID_SHA256_BYTES];
    char key[131];
    (void)state;
    memset(key, 0x0b, 20);
    id_hmac_sha256(str_of(key, 20), "Hi There", 8, out);
    assert_hex(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    id_hmac_sha256(STR("Jefe"), "what do ya want for nothing?", 28, out);
    assert_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    static const char text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    id_hmac_sha256(str_of(key, sizeof key), text, sizeof text - 1, out);
    assert_hex(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    // An empty key, as OpenSSL and others have it.
    id_hmac_sha256(STR_EMPTY, "", 0, out);
    assert_hex(out, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void test_uuids_differ(void **state)
{
    char a[ID_UUID_BYTES], b[ID_UUID_BYTES];
    (void)state;
    id_uuid7(a);
    id_uuid7(b);
    assert_int_equal(strlen(a), ID_UUID_BYTES - 1);
    assert_int_equal(a[14], '7');
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_hmac_sha256),
        cmocka_unit_test(test_uuids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
