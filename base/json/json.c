#include "base/json/json.h"

#include <stdarg.h>
#include <string.h>

#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "base/mem.h"

enum { DEPTH_MAX = 64, TOKENS_MAX = 100000 };
static const size_t bytes_max_default = 1024u * 1024;

struct scan {
    size_t line, line_start;
    size_t depth, tokens;
};

// Counts depth and tokens without building anything; what is not JSON at all is left to jansson's
// better message.
static enum error_code scan_limits(struct str text, size_t depth_max, size_t tokens_max, struct error *err)
{
    struct scan scan = {.line = 1};
    bool in_string = false, in_word = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        bool separator = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':';
        bool open = c == '{' || c == '[', close = c == '}' || c == ']';
        if (c == '\n') {
            scan.line++;
            scan.line_start = i + 1;
        }
        if (close && scan.depth) scan.depth--;
        if (open) scan.depth++;
        bool starts = open || c == '"' || (!separator && !close && !in_word);
        in_word = !separator && !open && !close && c != '"';
        in_string = c == '"';
        if (starts) scan.tokens++;
        const char *what = scan.depth > depth_max     ? "nested deeper than"
                           : scan.tokens > tokens_max ? "more values than"
                                                      : NULL;
        if (what)
            return error_set(err, ERROR_TOO_LARGE, "line %zu column %zu: %s the limit of %zu", scan.line,
                             i - scan.line_start + 1, what, scan.depth > depth_max ? depth_max : tokens_max);
    }
    return ERROR_NONE;
}

enum error_code json_decode(struct str text, const struct json_limits *limits, json_t **out, struct error *err)
{
    size_t bytes_max = limits && limits->bytes_max ? limits->bytes_max : bytes_max_default;
    size_t depth_max = limits && limits->depth_max ? limits->depth_max : DEPTH_MAX;
    size_t tokens_max = limits && limits->tokens_max ? limits->tokens_max : TOKENS_MAX;
    if (text.len == 0) return error_set(err, ERROR_INVALID, "invalid JSON: the text is empty");
    if (text.len > bytes_max)
        return error_set(err, ERROR_TOO_LARGE, "%zu bytes of JSON, the limit is %zu", text.len, bytes_max);
    const struct json_limits all = {.depth_max = depth_max,
                                    .tokens_max = tokens_max,
                                    .skip = limits ? limits->skip : NULL,
                                    .skip_count = limits ? limits->skip_count : 0};
    json_t *value = json_reader_read(text, &all);
    if (value) {
        *out = value;
        return ERROR_NONE;
    }
    enum error_code code = scan_limits(text, depth_max, tokens_max, err);
    if (code != ERROR_NONE) return code;
    json_error_t why;
    value = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &why);
    if (!value) return error_set(err, ERROR_INVALID, "line %d column %d: %s", why.line, why.column, why.text);
    *out = value;
    return ERROR_NONE;
}

struct str json_str(const json_t *value)
{
    if (!json_is_string(value)) return STR_EMPTY;
    return str_of(json_string_value(value), json_string_length(value));
}

struct str json_get_str(const json_t *object, const char *key)
{
    return json_str(json_object_get(object, key));
}

int64_t json_get_int(const json_t *object, const char *key, int64_t def)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : def;
}

bool json_get_bool(const json_t *object, const char *key, bool def)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : def;
}

json_t *json_get_object(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_object(value) ? value : NULL;
}

json_t *json_get_array(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_array(value) ? value : NULL;
}

json_t *json_path(const json_t *object, const char *first, ...)
{
    va_list keys;
    va_start(keys, first);
    json_t *value = json_object_get(object, first);
    for (const char *key = va_arg(keys, const char *); key && value; key = va_arg(keys, const char *))
        value = json_object_get(value, key);
    va_end(keys);
    return value;
}

// Length of the valid sequence at s, 0 when there is none.
static size_t utf8_length(struct str s)
{
    for (size_t len = 1; len <= 4 && len <= s.len; len++)
        if (str_is_utf8(str_first(s, len))) return len;
    return 0;
}

json_t *json_new_str(struct str s)
{
    json_t *value = json_stringn(s.at ? s.at : "", s.len);
    if (value) return value;
    char *clean = mem_alloc(s.len * 3 + 1);
    size_t used = 0;
    for (size_t i = 0; i < s.len;) {
        size_t len = utf8_length(str_from(s, i));
        const char *from = len ? s.at + i : "\xef\xbf\xbd";
        size_t take = len ? len : 3;
        memcpy(clean + used, from, take);
        used += take;
        i += len ? len : 1;
    }
    value = json_stringn(clean, used);
    mem_free(clean);
    return value ? value : json_string("");
}

char *json_canonical(const json_t *value, size_t *out_len)
{
    struct strbuf text;
    strbuf_init(&text, SIZE_MAX / 4);
    if (value)
        json_writer_write(&text, value, true);
    else
        strbuf_add_c(&text, "null");
    *out_len = text.len;
    return strbuf_detach(&text);
}
