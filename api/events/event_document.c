#include "api/events/event_document.h"

#include <string.h>

#include "base/mem.h"
#include "base/parse.h"

static const struct json_limits limits = {
    .bytes_max = EVENT_DOCUMENT_BYTES_MAX,
    .depth_max = EVENT_DOCUMENT_DEPTH_MAX,
    .tokens_max = EVENT_DOCUMENT_TOKENS_MAX,
};

// The decoder quotes what it stumbled over ("... near '...'"); the place alone is told.
static void drop_quotation(struct error *err)
{
    char *near = err ? strstr(err->text, " near ") : NULL;
    if (near) *near = '\0';
}

enum error_code event_document_decode(struct str text, const char *place, json_t **out, struct error *err)
{
    json_t *value = NULL;
    enum error_code code = json_decode(text, &limits, &value, err);
    if (code != ERROR_NONE) {
        drop_quotation(err);
        error_prefix(err, place);
        return code;
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return error_set(err, ERROR_INVALID, "%s: must be a JSON object", place);
    }
    *out = value;
    return ERROR_NONE;
}

static enum error_code open_base64(struct str text, const char *place, struct event_text *out, struct error *err)
{
    if (text.len / 4 > EVENT_DOCUMENT_BYTES_MAX / 3)
        return error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes of base64", place, text.len);
    size_t cap = text.len / 4 * 3 + 3, len = 0;
    out->owned = mem_alloc(cap);
    out->owned_bytes = cap;
    if (parse_base64(text, out->owned, cap, &len, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "%s: must be JSON or base64 of JSON", place);
    out->json = str_of((const char *)out->owned, len);
    return ERROR_NONE;
}

enum error_code event_text_open(const json_t *value, const char *place, struct event_text *out, struct error *err)
{
    *out = (struct event_text){0};
    struct str text = json_str(value);
    while (text.len && strchr(" \t\r\n", text.at[0]))
        text = str_from(text, 1);
    while (text.len && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    if (!value || json_is_null(value) || (json_is_string(value) && text.len == 0))
        return error_set(err, ERROR_INVALID, "%s: missing", place);
    if (!json_is_string(value))
        return error_set(err, ERROR_INVALID, "%s: must be an object or a string that contains one", place);
    // No base64 begins with a brace or a bracket.
    if (text.at[0] != '{' && text.at[0] != '[') return open_base64(text, place, out, err);
    out->json = text;
    return ERROR_NONE;
}

void event_text_close(struct event_text *text)
{
    if (text->owned) mem_free_secret(text->owned, text->owned_bytes);
    *text = (struct event_text){0};
}

enum error_code event_document_unwrap(json_t *value, const char *place, json_t **out, struct error *err)
{
    if (json_is_object(value)) {
        *out = json_incref(value);
        return ERROR_NONE;
    }
    struct event_text text;
    enum error_code code = event_text_open(value, place, &text, err);
    if (code == ERROR_NONE) code = event_document_decode(text.json, place, out, err);
    event_text_close(&text);
    return code;
}

struct str event_document_text(const json_t *object, const char *member, size_t bytes_max)
{
    struct str text = json_get_str(object, member);
    if (text.len <= bytes_max) return text;
    size_t len = bytes_max;
    while (len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    return str_first(text, len);
}
