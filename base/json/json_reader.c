#include "base/json/json_reader.h"

#include "base/json/json_canonical.h"
#include "base/json/json_text.h"
#include "base/mem.h"

struct json_reader {
    const char *at, *end;
    size_t depth_left, tokens_left;
    char *scratch; // for strings with escapes; as long as the text, and some
    size_t text_len;
    const struct json_limits *limits;
};

enum { SCRATCH_SPARE = 8 };

static json_t *read_value(struct json_reader *r);

static void skip_space(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

// The byte after white space is consumed if it is c.
static bool take(struct json_reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

// ---- strings -------------------------------------------------------------------------------------------------------

static bool read_hex4(struct json_reader *r, unsigned *out)
{
    if (r->end - r->at < 4) return false;
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = *r->at++;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

// Behind "\u". NUL and halves of pairs are left to jansson, which refuses them.
static char *read_code(struct json_reader *r, char *to)
{
    unsigned code, low;
    if (!read_hex4(r, &code) || code == 0 || (code >= 0xdc00 && code <= 0xdfff)) return NULL;
    if (code >= 0xd800 && code <= 0xdbff) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u') return NULL;
        r->at += 2;
        if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(to, code);
}

// What stands for one byte, by what is behind the backslash; manifests within strings are full of
// it.
static const char escaped[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

// Behind the backslash.
static char *read_escape(struct json_reader *r, char *to)
{
    if (r->at == r->end) return NULL;
    unsigned char c = (unsigned char)*r->at++;
    if (c == 'u') return read_code(r, to);
    *to = escaped[c];
    return escaped[c] ? to + 1 : NULL;
}

// Behind the opening quote. The text is a view of the input, or of *out_owned when there were
// escapes.
static bool read_string(struct json_reader *r, struct str *out)
{
    unsigned char all = 0;
    const char *begin = r->at;
    r->at = json_text_plain_end(r->at, r->end, &all);
    if (r->at < r->end && *r->at == '"') {
        *out = str_of(begin, (size_t)(r->at - begin));
        r->at++;
        return all < 0x80 || str_is_utf8(*out);
    }
    if (!r->scratch) r->scratch = mem_alloc(r->text_len + SCRATCH_SPARE);
    char *to = r->scratch;
    memcpy(to, begin, (size_t)(r->at - begin));
    to += r->at - begin;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at++ != '\\' || !(to = read_escape(r, to))) return false;
        r->at = json_text_plain_copy(r->at, r->end, &to, &all);
    }
    if (r->at == r->end) return false;
    r->at++;
    *out = str_of(r->scratch, (size_t)(to - r->scratch));
    return all < 0x80 || str_is_utf8(*out);
}

// ---- values --------------------------------------------------------------------------------------------------------

// Integers of up to 18 digits; everything else is left to jansson.
static json_t *read_integer(struct json_reader *r)
{
    enum { DIGITS_MAX = 18 };
    bool is_negative = *r->at == '-';
    const char *begin = r->at += is_negative;
    json_int_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - begin < DIGITS_MAX; r->at++)
        value = value * 10 + (*r->at - '0');
    long digits = r->at - begin;
    if (digits == 0 || (*begin == '0' && digits > 1)) return NULL;
    bool goes_on =
        r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E' || (*r->at >= '0' && *r->at <= '9'));
    if (goes_on) return NULL;
    return json_integer(is_negative ? -value : value);
}

static json_t *read_word(struct json_reader *r, const char *word, json_t *value)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) return NULL;
    r->at += len;
    return value;
}

static bool may_skip(const struct json_reader *r, struct str key)
{
    for (size_t i = 0; i < r->limits->skip_count; i++)
        if (str_eq(r->limits->skip[i], key)) return true;
    return false;
}

// What nobody wants is looked at and not built: null stands in its place, so that the key is there.
static json_t *skip_value(struct json_reader *r)
{
    skip_space(r);
    if (r->at == r->end || (*r->at != '{' && *r->at != '[')) return NULL;
    const char *behind = json_canonical_skip(r->at, r->end, r->depth_left, &r->tokens_left);
    if (!behind) return NULL;
    r->at = behind;
    return json_null();
}

static bool read_members(struct json_reader *r, json_t *object)
{
    if (take(r, '}')) return true;
    for (size_t count = 1;; count++) {
        struct str key;
        if (!take(r, '"') || r->tokens_left-- == 0) return false;
        if (!read_string(r, &key)) return false;
        // A key with escapes lies in the scratch, which the value may need.
        char *kept = key.at == r->scratch && key.len ? mem_strndup(key.at, key.len) : NULL;
        json_t *value = NULL;
        if (take(r, ':')) {
            if (may_skip(r, key)) value = skip_value(r);
            if (!value) value = read_value(r);
        }
        bool good = value && json_object_setn_new_nocheck(object, kept ? kept : key.at, key.len, value) == 0;
        mem_free(kept);
        if (!good || json_object_size(object) != count) return false; // a key that was there already
        if (take(r, '}')) return true;
        if (!take(r, ',')) return false;
    }
}

static bool read_elements(struct json_reader *r, json_t *array)
{
    if (take(r, ']')) return true;
    for (;;) {
        json_t *value = read_value(r);
        if (!value || json_array_append_new(array, value) != 0) return false;
        if (take(r, ']')) return true;
        if (!take(r, ',')) return false;
    }
}

static json_t *read_inside(struct json_reader *r, bool is_object)
{
    if (r->depth_left == 0) return NULL;
    r->depth_left--;
    json_t *value = is_object ? json_object() : json_array();
    bool good = is_object ? read_members(r, value) : read_elements(r, value);
    r->depth_left++;
    if (good) return value;
    json_decref(value);
    return NULL;
}

static json_t *read_value(struct json_reader *r)
{
    struct str text;
    skip_space(r);
    if (r->at == r->end || r->tokens_left-- == 0) return NULL;
    switch (*r->at) {
    case '{':
    case '[': return read_inside(r, *r->at++ == '{');
    case '"': r->at++; return read_string(r, &text) ? json_stringn_nocheck(text.at, text.len) : NULL;
    case 't': return read_word(r, "true", json_true());
    case 'f': return read_word(r, "false", json_false());
    case 'n': return read_word(r, "null", json_null());
    default: return read_integer(r);
    }
}

json_t *json_reader_read(struct str text, const struct json_limits *limits)
{
    struct json_reader r = {.at = text.at,
                            .end = text.at + text.len,
                            .depth_left = limits->depth_max,
                            .tokens_left = limits->tokens_max,
                            .text_len = text.len,
                            .limits = limits};
    skip_space(&r);
    json_t *value = r.at < r.end && (*r.at == '{' || *r.at == '[') ? read_value(&r) : NULL;
    skip_space(&r);
    mem_free(r.scratch);
    if (value && r.at == r.end) return value;
    json_decref(value);
    return NULL;
}
