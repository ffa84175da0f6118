#include "api/event_document.h"

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
        return error_set(err, ERROR_INVALID, "%s: is no JSON object", place);
    }
    *out = value;
    return ERROR_NONE;
}

static enum error_code decode_base64(struct str text, const char *place, json_t **out, struct error *err)
{
    if (text.len / 4 > EVENT_DOCUMENT_BYTES_MAX / 3)
        return error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes of base64", place, text.len);
    size_t cap = text.len / 4 * 3 + 3, len = 0;
    uint8_t *bytes = mem_alloc(cap);
    enum error_code code = parse_base64(text, bytes, cap, &len, NULL);
    if (code != ERROR_NONE)
        code = error_set(err, ERROR_INVALID, "%s: is neither JSON nor base64 of JSON", place);
    else
        code = event_document_decode(str_of((const char *)bytes, len), place, out, err);
    mem_free_secret(bytes, len);
    return code;
}

enum error_code event_document_unwrap(json_t *value, const char *place, json_t **out, struct error *err)
{
    if (json_is_object(value)) {
        *out = json_incref(value);
        return ERROR_NONE;
    }
    struct str text = json_str(value);
    while (text.len && strchr(" \t\r\n", text.at[0]))
        text = str_from(text, 1);
    while (text.len && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    if (!value || json_is_null(value) || (json_is_string(value) && text.len == 0))
        return error_set(err, ERROR_INVALID, "%s: missing", place);
    if (!json_is_string(value))
        return error_set(err, ERROR_INVALID, "%s: must be an object or a string that holds one", place);
    // No base64 begins with a brace or a bracket.
    bool is_json = text.at[0] == '{' || text.at[0] == '[';
    return is_json ? event_document_decode(text, place, out, err) : decode_base64(text, place, out, err);
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
