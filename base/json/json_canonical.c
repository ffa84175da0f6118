#include "base/json/json_canonical.h"

#include "base/json/json_text.h"

struct canonical {
    const char *at, *end;
    size_t depth_left, tokens_left;
    size_t outermost; // what depth_left is within the outermost object
    unsigned char all;
    const struct json_canonical_look *look;
};

static bool check_value(struct canonical *c);

static bool take(struct canonical *c, char byte)
{
    if (c->at == c->end || *c->at != byte) return false;
    c->at++;
    return true;
}

static bool is_word(const struct canonical *c, struct str text)
{
    for (size_t i = 0; c->look && i < c->look->word_count; i++)
        if (text.len == c->look->words[i].len && memcmp(text.at, c->look->words[i].at, text.len) == 0) return true;
    return false;
}

// Behind the opening quote; with is_key also without any escape, so that keys can be compared as
// they stand.
static bool check_string(struct canonical *c, bool is_key)
{
    const char *begin = c->at;
    for (;;) {
        c->at = json_text_plain_end(c->at, c->end, &c->all);
        if (c->at == c->end) return false;
        if (*c->at == '"') return !is_word(c, str_of(begin, (size_t)(c->at++ - begin)));
        if (*c->at != '\\' || is_key || ++c->at == c->end || !memchr("\"\\bfnrt", *c->at, 7)) return false;
        c->at++;
    }
}

static bool check_integer(struct canonical *c)
{
    enum { DIGITS_MAX = 18 };
    bool is_negative = take(c, '-');
    const char *begin = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    long digits = c->at - begin;
    if (digits == 0 || digits > DIGITS_MAX) return false;
    if (*begin == '0' && (digits > 1 || is_negative)) return false;
    return c->at == c->end || (*c->at != '.' && *c->at != 'e' && *c->at != 'E');
}

static bool check_word(struct canonical *c, const char *word, size_t len)
{
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0) return false;
    c->at += len;
    return true;
}

static void note_part(struct canonical *c, struct str key, const char *value)
{
    if (c->depth_left != c->outermost || !c->look) return;
    for (size_t i = 0; i < c->look->part_count; i++)
        if (str_eq(c->look->parts[i].key, key)) c->look->parts[i].value = str_of(value, (size_t)(c->at - value));
}

static bool check_members(struct canonical *c)
{
    struct str before = STR_EMPTY;
    if (take(c, '}')) return true;
    for (bool is_first = true;; is_first = false) {
        if (!take(c, '"') || c->tokens_left-- == 0) return false;
        const char *begin = c->at;
        if (!check_string(c, true)) return false;
        struct str key = str_of(begin, (size_t)(c->at - 1 - begin));
        if (!is_first && str_compare(before, key) >= 0) return false;
        before = key;
        const char *value = c->at + 1;
        if (!take(c, ':') || !check_value(c)) return false;
        note_part(c, key, value);
        if (take(c, '}')) return true;
        if (!take(c, ',')) return false;
    }
}

static bool check_elements(struct canonical *c)
{
    if (take(c, ']')) return true;
    for (;;) {
        if (!check_value(c)) return false;
        if (take(c, ']')) return true;
        if (!take(c, ',')) return false;
    }
}

static bool check_inside(struct canonical *c, bool is_object)
{
    if (c->depth_left == 0) return false;
    c->depth_left--;
    bool good = is_object ? check_members(c) : check_elements(c);
    c->depth_left++;
    return good;
}

static bool check_value(struct canonical *c)
{
    if (c->at == c->end || c->tokens_left-- == 0) return false;
    switch (*c->at) {
    case '{':
    case '[': return check_inside(c, *c->at++ == '{');
    case '"': c->at++; return check_string(c, false);
    case 't': return check_word(c, "true", 4);
    case 'f': return check_word(c, "false", 5);
    case 'n': return check_word(c, "null", 4);
    default: return check_integer(c);
    }
}

bool json_canonical_check(struct str text, size_t depth_max, size_t tokens_max, const struct json_canonical_look *look)
{
    for (size_t i = 0; look && i < look->part_count; i++)
        look->parts[i].value = STR_EMPTY;
    if (!str_starts(text, STR("{"))) return false;
    struct canonical c = {.at = text.at,
                          .end = text.at + text.len,
                          .depth_left = depth_max,
                          .tokens_left = tokens_max,
                          .outermost = depth_max - 1,
                          .look = look};
    return check_value(&c) && c.at == c.end && (c.all < 0x80 || str_is_utf8(text));
}

const char *json_canonical_skip(const char *at, const char *end, size_t depth_max, size_t *tokens_left)
{
    struct canonical c = {.at = at, .end = end, .depth_left = depth_max, .tokens_left = *tokens_left};
    if (!check_value(&c) || (c.all >= 0x80 && !str_is_utf8(str_of(at, (size_t)(c.at - at))))) return NULL;
    *tokens_left = c.tokens_left;
    return c.at;
}
