// JSON: what is called canonical is; what the fast reader takes, jansson takes, too, and
// understands the same; what the writer writes is what jansson writes, and is read back as the
// same.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/json/json_canonical.h"
#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

enum { DEPTH_MAX = 20, TOKENS_MAX = 500, BYTES_MAX = 1024 * 1024 };

static void check_writer(const json_t *value, bool sorted)
{
    struct strbuf text;
    strbuf_init(&text, (size_t)BYTES_MAX * 8);
    json_writer_write(&text, value, sorted);
    char *expected = json_dumps(value, JSON_COMPACT | (sorted ? JSON_SORT_KEYS : 0));
    assert(expected && strlen(expected) == text.len && memcmp(expected, text.at, text.len) == 0);
    json_t *again = NULL;
    assert(json_decode(strbuf_str(&text), &(struct json_limits){.bytes_max = (size_t)BYTES_MAX * 8}, &again, NULL) ==
           ERROR_NONE);
    assert(json_equal(value, again));
    json_decref(again);
    free(expected);
    strbuf_finish(&text);
}

// What was made canonical is called so, unless it holds what the check passes over.
static void check_canonical(const json_t *value)
{
    size_t len;
    char *text = json_canonical(value, &len);
    bool is_plain = !memmem(text, len, "\\", 1) && json_is_object(value);
    bool is_canonical = json_canonical_check(str_of(text, len), DEPTH_MAX, TOKENS_MAX, NULL);
    assert(!is_plain || is_canonical);
    mem_free(text);
}

static void check_part(struct str text, const json_t *value)
{
    size_t len = 0;
    char *expected = value ? json_canonical(value, &len) : NULL;
    assert(text.len == len && (!len || memcmp(text.at, expected, len) == 0));
    mem_free(expected);
}

// The same, but null where something is skipped.
static bool is_same_but_skipped(const json_t *some, const json_t *all)
{
    const char *key;
    json_t *value;
    if (!json_is_object(all)) return json_equal(some, all);
    if (!json_is_object(some) || json_object_size(some) != json_object_size(all)) return false;
    json_object_foreach((json_t *)(uintptr_t)all, key, value)
    {
        const json_t *other = json_object_get(some, key);
        bool may_skip = strcmp(key, "a") == 0 && (json_is_object(value) || json_is_array(value));
        if (!(may_skip && json_is_null(other)) && !is_same_but_skipped(other, value)) return false;
    }
    return true;
}

// Arrays are looked at from the outside only: json_equal then tells whether something is missing
// within.
static bool holds_objects_in_arrays(const json_t *value)
{
    size_t i;
    const char *key;
    json_t *each;
    json_array_foreach(value, i, each) if (json_is_object(each) || json_is_array(each)) return true;
    json_object_foreach((json_t *)(uintptr_t)value, key, each) if (holds_objects_in_arrays(each)) return true;
    return false;
}

// Whoever skips takes and refuses the same texts.
static void check_skip(struct str text, const json_t *fast)
{
    static const struct str skip[] = {{"a", 1}};
    static const struct json_limits limits = {
        .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX, .skip = skip, .skip_count = 1};
    json_t *some = json_reader_read(text, &limits);
    assert(!some == !fast);
    assert(!fast || holds_objects_in_arrays(fast) || is_same_but_skipped(some, fast));
    json_decref(some);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static const struct json_limits limits = {.bytes_max = BYTES_MAX, .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX};
    struct str text = str_of((const char *)at, len);
    if (len == 0 || len > BYTES_MAX) return 0;
    json_error_t why;
    json_t *fast = json_reader_read(text, &limits);
    json_t *slow = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &why), *decoded = NULL;
    enum error_code code = json_decode(text, &limits, &decoded, NULL);
    struct json_canonical_part part = {.key = STR("a")};
    const struct json_canonical_look look = {.parts = &part, .part_count = 1};
    if (json_canonical_check(text, DEPTH_MAX, TOKENS_MAX, &look)) {
        assert(fast);
        check_part(part.value, json_object_get(fast, "a"));
        size_t canonical_len;
        char *canonical = json_canonical(fast, &canonical_len);
        assert(canonical_len == len && memcmp(canonical, at, len) == 0);
        mem_free(canonical);
    }
    check_skip(text, fast);
    if (fast) {
        assert(slow && json_equal(fast, slow));
        check_writer(fast, true);
        check_writer(fast, false);
        check_canonical(fast);
    }
    if (!slow) assert(code != ERROR_NONE);
    if (code == ERROR_NONE) {
        assert(json_equal(decoded, slow));
        check_writer(decoded, true);
    } else {
        assert(!fast); // also where only a limit was passed
    }
    json_decref(fast);
    json_decref(slow);
    json_decref(decoded);
    return 0;
}
