#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storage/manifests/manifest_blob.h"
#include "storage/pg/pg_batch.h"
#include "storage/reports/argo_status.h"
#include "storage/sql/store_call.h"

static void round_trip(struct str text)
{
    struct arena *arena = arena_create(0);
    struct manifest_blob blob;
    struct strbuf plain;
    uint8_t sha256[ID_SHA256_BYTES];
    manifest_blob_make(&blob, text, arena);
    id_sha256(text.at, text.len, sha256);
    assert_memory_equal(sha256, blob.sha256, sizeof sha256);
    assert_true(blob.content.len <= text.len);
    strbuf_init(&plain, MANIFEST_BYTES_MAX);
    assert_int_equal(manifest_blob_open(blob.encoding, blob.plain_bytes, blob.content, &plain, NULL), ERROR_NONE);
    assert_true(str_eq(strbuf_str(&plain), text));
    strbuf_finish(&plain);
    arena_destroy(arena);
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    round_trip(STR("{}"));
    size_t len = MANIFEST_BYTES_MAX;
    char *large = mem_alloc(len);
    for (size_t i = 0; i < len; i++)
        large[i] = (char)('a' + i % 23);
    round_trip(str_of(large, len));
    round_trip(str_of(large, 5000));
    id_random(large, 4096);
    round_trip(str_of(large, 4096));
    mem_free(large);
}

// What the agent packed is kept as it is, unless packing made it longer.
static void packing_is_not_done_twice(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct manifest_packer *packer = manifest_packer_create();
    struct manifest_blob blob, kept;
    char text[1000];
    uint8_t sha256[ID_SHA256_BYTES] = {0};
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 2; i++) { // also the second one of a packer
        manifest_blob_pack(&blob, str_of(text, sizeof text), sha256, STR_EMPTY, packer, arena);
        assert_int_equal(blob.encoding, MANIFEST_ZSTD);
    }
    manifest_blob_pack(&kept, str_of(text, sizeof text), sha256, blob.content, packer, arena);
    assert_ptr_equal(kept.content.at, blob.content.at);
    assert_int_equal(kept.encoding, MANIFEST_ZSTD);
    manifest_blob_pack(&kept, STR("{}"), sha256, blob.content, packer, arena);
    assert_int_equal(kept.encoding, MANIFEST_PLAIN);
    assert_true(str_eq(kept.content, STR("{}")));
    manifest_packer_destroy(packer);
    arena_destroy(arena);
}

static void damaged_content_is_refused(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0);
    struct manifest_blob blob;
    struct strbuf plain;
    struct error err;
    char text[1000];
    memset(text, 'x', sizeof text);
    manifest_blob_make(&blob, str_of(text, sizeof text), arena);
    assert_int_equal(blob.encoding, MANIFEST_ZSTD);
    strbuf_init(&plain, MANIFEST_BYTES_MAX);
    // Claims to be smaller or larger than it is, is cut, is nothing, claims too much.
    assert_int_equal(manifest_blob_open(MANIFEST_ZSTD, 999, blob.content, &plain, &err), ERROR_INTERNAL);
    assert_int_equal(manifest_blob_open(MANIFEST_ZSTD, 1001, blob.content, &plain, &err), ERROR_INTERNAL);
    assert_int_equal(
        manifest_blob_open(MANIFEST_ZSTD, 1000, str_first(blob.content, blob.content.len - 1), &plain, &err),
        ERROR_INTERNAL);
    assert_int_equal(manifest_blob_open(MANIFEST_ZSTD, 10, STR_EMPTY, &plain, &err), ERROR_INTERNAL);
    assert_int_equal(manifest_blob_open(MANIFEST_PLAIN, 10, STR("short"), &plain, &err), ERROR_INTERNAL);
    assert_int_equal(manifest_blob_open(MANIFEST_PLAIN, (size_t)1 << 40, STR("x"), &plain, &err), ERROR_INTERNAL);
    assert_int_equal(plain.len, 0);
    strbuf_finish(&plain);
    arena_destroy(arena);
}

static void argo_words_become_the_contracts(void **state)
{
    (void)state;
    static const struct {
        const char *word, *sync, *health;
    } table[] = {
        {"Synced", "SYNCED", "UNKNOWN"},
        {"OutOfSync", "OUT_OF_SYNC", "UNKNOWN"},
        {"SYNCED", "SYNCED", "UNKNOWN"},
        {"Unknown", "UNKNOWN", "UNKNOWN"},
        {"", "", ""},
        {"Healthy", "UNKNOWN", "HEALTHY"},
        {"Missing", "UNKNOWN", "MISSING"},
        {"x' OR 1=1", "UNKNOWN", "UNKNOWN"},
        {"Suspended", "UNKNOWN", "SUSPENDED"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_true(str_eq(argo_sync_status(str_c(table[i].word)), str_c(table[i].sync)));
        assert_true(str_eq(argo_health_status(str_c(table[i].word)), str_c(table[i].health)));
    }
}

static void sqlstates_have_codes(void **state)
{
    (void)state;
    assert_int_equal(pg_sqlstate_code("23505"), ERROR_CONFLICT);
    assert_int_equal(pg_sqlstate_code("40P01"), ERROR_CONFLICT);
    assert_int_equal(pg_sqlstate_code("23514"), ERROR_INVALID);
    assert_int_equal(pg_sqlstate_code("22P05"), ERROR_INVALID);
    assert_int_equal(pg_sqlstate_code("57014"), ERROR_TIMEOUT);
    assert_int_equal(pg_sqlstate_code("57P01"), ERROR_UNAVAILABLE);
    assert_int_equal(pg_sqlstate_code("53100"), ERROR_UNAVAILABLE);
    assert_int_equal(pg_sqlstate_code("42501"), ERROR_INTERNAL);
    assert_int_equal(pg_sqlstate_code(NULL), ERROR_INTERNAL);
}

static void foreign_cursors_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "!!!!", "YQ", "YQBiAA", "YQBiAGMAZAA", "_wAAAA", "YQBiAGM"};
    struct store_window window;
    struct error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct store_page page = {.after = str_c(bad[i])};
        if (store_window_init(&window, &page, 3, &err) == ERROR_NONE) fail_msg("%s was taken", bad[i]);
    }
    struct store_page good = {.after = STR("YQBiAGMA"), .first = 7};
    assert_int_equal(store_window_init(&window, &good, 3, &err), ERROR_NONE);
    assert_true(str_eq(window.low[2], STR("c")));
    assert_string_equal(window.limit, "8");
    struct store_page all = {.first = 1000000};
    assert_int_equal(store_window_init(&window, &all, 3, &err), ERROR_NONE);
    assert_int_equal(window.rows_max, STORE_PAGE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),     cmocka_unit_test(packing_is_not_done_twice),
        cmocka_unit_test(damaged_content_is_refused), cmocka_unit_test(argo_words_become_the_contracts),
        cmocka_unit_test(sqlstates_have_codes),       cmocka_unit_test(foreign_cursors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
