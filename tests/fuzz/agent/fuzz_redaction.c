// Redaction and projection of any object: no crash, the same result twice, and nothing of a Secret's values is left.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/reports/projection.h"
#include "agent/reports/redaction.h"
#include "base/json.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static const uint8_t key[REDACTION_KEY_BYTES] = {7};

static char *redact(const struct redaction *redaction, const json_t *object)
{
    json_t *copy = json_deep_copy(object);
    projection_apply(copy);
    redaction_apply(redaction, copy);
    size_t text_len;
    uint8_t hash[ID_SHA256_BYTES];
    char *text = projection_text(copy, &text_len, hash);
    json_decref(copy);
    return text;
}

// Values of a Secret's data must be digests afterwards.
static void check_secret(const struct redaction *redaction, const json_t *object)
{
    json_t *copy = json_deep_copy(object);
    json_object_set_new(copy, "kind", json_string("Secret"));
    json_object_set_new(copy, "metadata", json_object());
    redaction_apply(redaction, copy);
    static const char *const maps[] = {"data", "stringData"};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(json_get_object(copy, maps[i]), name,
                            value) if (!str_starts(json_str(value), STR("hmac-sha256:"))) abort();
    }
    json_decref(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct redaction *redaction = redaction_create_with_key(key);
    struct strbuf out;
    strbuf_init(&out, len * 2 + 64);
    if (len) redaction_scrub(str_of((const char *)at, len), &out);
    strbuf_finish(&out);
    json_t *object;
    if (json_decode(str_of((const char *)at, len), NULL, &object, NULL) == ERROR_NONE) {
        if (json_is_object(object)) {
            char *first = redact(redaction, object), *second = redact(redaction, object);
            if (strcmp(first, second) != 0) abort();
            mem_free(first);
            mem_free(second);
            check_secret(redaction, object);
        }
        json_decref(object);
    }
    redaction_destroy(redaction);
    return 0;
}
