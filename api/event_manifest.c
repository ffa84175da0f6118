#include "api/event_manifest.h"

#include <ctype.h>
#include <string.h>

#include "api/event_document.h"
#include "base/mem.h"

static const char last_applied[] = "kubectl.kubernetes.io/last-applied-configuration";

static bool is_secret_kind(const json_t *object)
{
    return str_eq(json_get_str(object, "kind"), STR("Secret"));
}

// The names of the keys stay: they are no secret, and show what the Secret is made of.
static void blank_values(json_t *object, const char *member)
{
    json_t *map = json_object_get(object, member), *value;
    if (!map || json_is_null(map)) return;
    if (!json_is_object(map)) {
        json_object_del(object, member);
        return;
    }
    const char *key;
    void *next;
    json_object_foreach_safe(map, next, key, value) json_object_set_new(map, key, json_null());
}

// As deep as the decoder allowed (EVENT_DOCUMENT_DEPTH_MAX).
void event_manifest_redact(json_t *manifest, bool is_secret)
{
    size_t i;
    const char *key;
    json_t *value;
    json_array_foreach(manifest, i, value) event_manifest_redact(value, false);
    if (!json_is_object(manifest)) return;
    json_object_del(manifest, last_applied);
    json_object_del(manifest, "managedFields");
    if (is_secret || is_secret_kind(manifest)) {
        blank_values(manifest, "data");
        blank_values(manifest, "stringData");
    }
    json_object_foreach(manifest, key, value) event_manifest_redact(value, false);
}

enum error_code event_manifest_text(const json_t *manifest, const char *place, struct arena *arena, struct str *out,
                                    struct error *err)
{
    size_t len;
    char *text = json_canonical(manifest, &len);
    enum error_code code = ERROR_NONE;
    if (len > EVENT_DOCUMENT_BYTES_MAX)
        code = error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes of JSON, the limit is %d", place, len,
                         EVENT_DOCUMENT_BYTES_MAX);
    else
        *out = arena_str(arena, str_of(text, len));
    mem_free(text);
    return code;
}

// In canonical JSON without \u a word stands as it is or not at all.
bool event_manifest_is_clean(struct str text, struct json_canonical_part *parts, size_t part_count)
{
    static const struct str words[] = {{"Secret", 6}, {"managedFields", 13}, {last_applied, sizeof last_applied - 1}};
    const struct json_canonical_look look = {
        .words = words, .word_count = sizeof words / sizeof *words, .parts = parts, .part_count = part_count};
    return text.len <= EVENT_DOCUMENT_BYTES_MAX &&
           json_canonical_check(text, EVENT_DOCUMENT_DEPTH_MAX, EVENT_DOCUMENT_TOKENS_MAX, &look);
}

enum error_code event_manifest_desired(json_t *value, const char *place, struct arena *arena, struct str *out,
                                       struct error *err)
{
    json_t *manifest = NULL;
    *out = STR_EMPTY;
    if (event_manifest_is_clean(json_str(value), NULL, 0)) {
        *out = arena_str(arena, json_str(value));
        return ERROR_NONE;
    }
    if (event_document_unwrap(value, place, &manifest, NULL) != ERROR_NONE) return ERROR_NONE;
    enum error_code code = ERROR_NONE;
    if (!is_secret_kind(manifest)) {
        event_manifest_redact(manifest, false);
        code = event_manifest_text(manifest, place, arena, out, err);
    }
    json_decref(manifest);
    return code;
}

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

// Rather too often than too seldom: the word Secret as the value of anything counts.
static bool seems_secret(struct str yaml)
{
    if (memmem(yaml.at, yaml.len, last_applied, sizeof last_applied - 1)) return true;
    struct str word = STR("Secret"), rest = yaml;
    while (rest.len) {
        const char *hit = memmem(rest.at, rest.len, word.at, word.len);
        if (!hit) return false;
        const char *before = hit, *behind = hit + word.len, *end = yaml.at + yaml.len;
        rest = str_of(behind, (size_t)(end - behind));
        if (behind < end && is_word_byte(*behind)) continue;
        if (before > yaml.at && is_word_byte(before[-1])) continue;
        while (before > yaml.at && strchr(" \t\r\n\"'", before[-1]))
            before--;
        // `kind: Secret`, also with a tag or an anchor between the two.
        while (before > yaml.at && !strchr(" \t\r\n:", before[-1]))
            before--;
        while (before > yaml.at && strchr(" \t\r\n\"'", before[-1]))
            before--;
        if (before > yaml.at && before[-1] == ':') return true;
    }
    return false;
}

enum error_code event_manifest_git(struct str text, const char *place, struct arena *arena, struct str *out,
                                   struct error *err)
{
    *out = STR_EMPTY;
    if (text.len == 0) return ERROR_NONE;
    if (event_manifest_is_clean(text, NULL, 0)) {
        *out = arena_str(arena, text);
        return ERROR_NONE;
    }
    json_t *manifest = NULL;
    if (event_document_decode(text, place, &manifest, NULL) == ERROR_NONE) {
        enum error_code code = event_manifest_desired(manifest, place, arena, out, err);
        json_decref(manifest);
        return code;
    }
    if (text.len <= EVENT_DOCUMENT_BYTES_MAX && !seems_secret(text)) *out = arena_str(arena, text);
    return ERROR_NONE;
}
