#include "api/events/event_manifest.h"

#include <string.h>

#include "api/events/event_document.h"
#include "base/json/yaml_tree.h"
#include "base/mem.h"
#include "tunnel/wire/redaction_scrub.h"

enum { SPARE_BYTES = 64 * 1024 };

bool event_manifest_is_canonical(struct str text, struct json_canonical_part *parts, size_t part_count)
{
    const struct json_canonical_look look = {.parts = parts, .part_count = part_count};
    return text.len <= EVENT_DOCUMENT_BYTES_MAX &&
           json_canonical_check(text, EVENT_DOCUMENT_DEPTH_MAX, EVENT_DOCUMENT_TOKENS_MAX, &look);
}

static enum error_code check_size(size_t len, const char *place, struct error *err)
{
    return len <= EVENT_DOCUMENT_BYTES_MAX ? ERROR_NONE
                                           : error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes of JSON, the limit is %d",
                                                       place, len, EVENT_DOCUMENT_BYTES_MAX);
}

enum error_code event_manifest_redact(const struct event_filter *filter, struct str text, const char *place,
                                      struct arena *arena, struct str *out, struct error *err)
{
    struct strbuf left;
    strbuf_init(&left, 2 * text.len + REDACTION_GROWTH_BYTES_MAX + SPARE_BYTES);
    enum error_code code = redaction_apply(filter->redaction, &filter->object, text, &left, err);
    if (code != ERROR_NONE)
        error_prefix(err, place);
    else
        code = check_size(left.len, place, err);
    if (code == ERROR_NONE) *out = arena_str(arena, strbuf_str(&left));
    strbuf_finish(&left);
    return code;
}

static enum error_code redact_tree(const struct event_filter *filter, const json_t *manifest, const char *place,
                                   struct arena *arena, struct str *out, struct error *err)
{
    size_t len;
    char *text = json_canonical(manifest, &len);
    enum error_code code = check_size(len, place, err);
    if (code == ERROR_NONE) code = event_manifest_redact(filter, str_of(text, len), place, arena, out, err);
    mem_free_secret(text, len);
    return code;
}

enum error_code event_manifest_take(const struct event_filter *filter, json_t *value, const char *place,
                                    struct arena *arena, struct str *out, struct error *err)
{
    json_t *manifest = NULL;
    if (event_manifest_is_canonical(json_str(value), NULL, 0))
        return event_manifest_redact(filter, json_str(value), place, arena, out, err);
    enum error_code code = event_document_unwrap(value, place, &manifest, err);
    if (code == ERROR_NONE) code = redact_tree(filter, manifest, place, arena, out, err);
    json_decref(manifest);
    return code;
}

enum error_code event_manifest_desired(const struct event_filter *filter, json_t *value, const char *place,
                                       struct arena *arena, struct str *out, struct error *err)
{
    json_t *manifest = NULL;
    *out = STR_EMPTY;
    if (event_manifest_is_canonical(json_str(value), NULL, 0))
        return event_manifest_redact(filter, json_str(value), place, arena, out, err);
    if (event_document_unwrap(value, place, &manifest, NULL) != ERROR_NONE) return ERROR_NONE;
    enum error_code code = redact_tree(filter, manifest, place, arena, out, err);
    json_decref(manifest);
    return code;
}

enum error_code event_manifest_git(const struct event_filter *filter, struct str text, const char *place,
                                   struct arena *arena, struct str *out, struct error *err)
{
    json_t *manifest = NULL;
    *out = STR_EMPTY;
    if (text.len == 0) return ERROR_NONE;
    if (event_manifest_is_canonical(text, NULL, 0)) return event_manifest_redact(filter, text, place, arena, out, err);
    enum error_code code = event_document_decode(text, place, &manifest, NULL);
    if (code != ERROR_NONE) code = yaml_tree_decode_typed(text, EVENT_DOCUMENT_BYTES_MAX, &manifest, NULL);
    bool is_read = code == ERROR_NONE && json_is_object(manifest);
    code = is_read ? redact_tree(filter, manifest, place, arena, out, err) : ERROR_NONE;
    json_decref(manifest);
    return code;
}

struct str event_manifest_scrub(struct str text, struct arena *arena)
{
    struct strbuf clean;
    if (!text.len) return STR_EMPTY;
    strbuf_init(&clean, 2 * text.len + 64);
    redaction_scrub(text, &clean);
    struct str out = arena_str(arena, clean.overflow ? STR("***") : strbuf_str(&clean));
    strbuf_finish(&clean);
    return out;
}
