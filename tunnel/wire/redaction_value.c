#include "tunnel/wire/redaction_value.h"

#include <jansson.h>
#include <string.h>

#include "base/json/json_writer.h"
#include "tunnel/wire/redaction_scrub.h"

static const char *const type_names[REDACTION_TYPES] = {
    [REDACTION_CLOSED] = "closed",      [REDACTION_DEEP] = "deep",
    [REDACTION_DROP] = "drop",          [REDACTION_OPEN] = "open",
    [REDACTION_NAME] = "name",          [REDACTION_LABEL] = "label",
    [REDACTION_ENUM] = "enum",          [REDACTION_NUMBER] = "number",
    [REDACTION_QUANTITY] = "quantity",  [REDACTION_MEASURE] = "measure",
    [REDACTION_BOOL] = "bool",          [REDACTION_TIME] = "time",
    [REDACTION_DURATION] = "duration",  [REDACTION_PORT] = "port",
    [REDACTION_IMAGE] = "image",        [REDACTION_FULL_IMAGE] = "fullimage",
    [REDACTION_PATH] = "path",          [REDACTION_PATTERN] = "pattern",
    [REDACTION_REVISION] = "revision",  [REDACTION_URL] = "url",
    [REDACTION_TITLE] = "title",        [REDACTION_TEXT] = "text",
    [REDACTION_LONG_TEXT] = "longtext", [REDACTION_NODE_NAME] = "nodename",
};

enum redaction_type redaction_type_named(struct str name)
{
    for (int i = 0; i < REDACTION_TYPES; i++)
        if (str_eq(str_c(type_names[i]), name)) return (enum redaction_type)i;
    return REDACTION_TYPES;
}

// ---- grammars ------------------------------------------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Only messages, digits and the bytes of `extra`; at least one byte.
static bool consists_of(struct str s, size_t len_max, const char *extra)
{
    if (!s.len || s.len > len_max) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (!is_digit(c) && !is_alpha(c) && (c == '\0' || !strchr(extra, c))) return false;
    }
    return true;
}

// A text without escapes, quotes or control characters.
static bool is_one_line(struct str s, size_t len_max)
{
    if (!s.len || s.len > len_max) return false;
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.at[i] < 0x20 || s.at[i] == '"' || s.at[i] == '\\' || s.at[i] == 0x7f) return false;
    return true;
}

static size_t digits_at(struct str s, size_t i)
{
    size_t begin = i;
    while (i < s.len && is_digit(s.at[i]))
        i++;
    return i - begin;
}

// 10, 1.5, -3, 1e3, 25%, 500m, 128Mi
static bool is_quantity(struct str s)
{
    static const char *const suffixes[] = {"",  "%", "n",  "u",  "m",  "k",  "M",  "G",  "T",
                                           "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", NULL};
    if (!s.len || s.len > 32) return false;
    size_t i = s.at[0] == '-' || s.at[0] == '+', whole = digits_at(s, i), part = 0;
    i += whole;
    if (i < s.len && s.at[i] == '.') {
        part = digits_at(s, i + 1);
        i += 1 + part;
    }
    if (!whole && !part) return false;
    if (i + 1 < s.len && (s.at[i] == 'e' || s.at[i] == 'E')) {
        size_t sign = s.at[i + 1] == '-' || s.at[i + 1] == '+', exponent = digits_at(s, i + 1 + sign);
        if (exponent) i += 1 + sign + exponent;
    }
    for (size_t k = 0; suffixes[k]; k++)
        if (str_eq(str_from(s, i), str_c(suffixes[k])) || (i == s.len && !*suffixes[k])) return true;
    return false;
}

static bool is_measure(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_digit(s.at[i]) && !strchr("[],. eE+-", s.at[i])) return false;
    return s.len > 0 && s.len <= 256;
}

// 2026-03-01T08:00:00Z, with fractions and offsets
static bool is_time(struct str s)
{
    if (s.len < 10 || s.len > 40) return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_digit(s.at[i]) && !strchr("-:.+TZtz ", s.at[i])) return false;
    return digits_at(s, 0) == 4 && s.at[4] == '-';
}

// 30s, 1h30m, 1.5h, -1, 3d
static bool is_duration(struct str s)
{
    static const char *const units[] = {"ns", "us", "ms", "s", "m", "h", "d", "w"};
    if (!s.len || s.len > 32) return false;
    size_t i = s.at[0] == '-' || s.at[0] == '+';
    if (i == s.len) return false;
    while (i < s.len) {
        size_t whole = digits_at(s, i);
        if (!whole) return false;
        i += whole;
        if (i < s.len && s.at[i] == '.') i += 1 + digits_at(s, i + 1);
        if (i == s.len) return true;
        size_t unit = 0;
        for (size_t k = 0; k < sizeof units / sizeof *units && !unit; k++)
            if (str_starts(str_from(s, i), str_c(units[k]))) unit = strlen(units[k]);
        if (!unit) return false;
        i += unit;
    }
    return true;
}

// [[scheme://]host[:port]/]path[:tag][@sha256:hex], or as kustomize writes it: name=other:tag
static bool is_image(struct str s, bool is_full)
{
    if (!s.len || s.len > 1024) return false;
    size_t scheme = 0;
    static const char *const schemes[] = {"docker-pullable://", "docker://", "containerd://", "oci://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (str_starts(s, str_c(schemes[i]))) scheme = strlen(schemes[i]);
    struct str rest = str_from(s, scheme);
    size_t at = 0;
    bool has_mark = scheme > 0;
    for (size_t i = 0; i < rest.len; i++) {
        char c = rest.at[i];
        if (c == '@') {
            // A digest, and nothing that could be a password before a host.
            struct str algorithm, hex = str_from(rest, i + 1);
            if (at++ || !str_cut(&hex, ':', &algorithm) || !consists_of(algorithm, 32, "+._-")) return false;
            for (size_t k = 0; k < hex.len; k++)
                if (!is_digit(hex.at[k]) && !(hex.at[k] >= 'a' && hex.at[k] <= 'f')) return false;
            return hex.len >= 32 && hex.len <= 128;
        }
        if (!is_digit(c) && !is_alpha(c) && !strchr("._-/:=*", c)) return false;
        has_mark = has_mark || (i > 0 && (c == '/' || c == ':'));
    }
    return rest.len > 0 && (has_mark || !is_full);
}

static const char name_bytes[] = "._-/:*~";

static bool is_text(enum redaction_type type, struct str s)
{
    switch (type) {
    case REDACTION_NAME: return consists_of(s, 253, name_bytes);
    case REDACTION_LABEL: return consists_of(s, 63, "._-");
    case REDACTION_ENUM: return consists_of(s, 253, "._-=,:/");
    case REDACTION_QUANTITY: return is_quantity(s);
    case REDACTION_MEASURE: return is_measure(s);
    case REDACTION_TIME: return is_time(s);
    case REDACTION_DURATION: return is_duration(s);
    case REDACTION_PORT: return consists_of(s, 63, "-_");
    case REDACTION_IMAGE: return is_image(s, false);
    case REDACTION_FULL_IMAGE: return is_image(s, true);
    case REDACTION_PATH: return consists_of(s, 1024, "._-/+~$*: ()[]{},");
    case REDACTION_PATTERN: return consists_of(s, 1024, "._-/+~$*:?,{}[]()!|&@ ");
    case REDACTION_REVISION: return consists_of(s, 256, "._-/+~^*<>=!| ,@{}:");
    default: return false;
    }
}

// ---- texts ---------------------------------------------------------------------------------------------------------

static struct str cut(struct str s, size_t len_max)
{
    if (s.len <= len_max) return s;
    s.len = len_max;
    while (s.len && ((unsigned char)s.at[s.len] & 0xc0) == 0x80)
        s.len--;
    return s;
}

static bool write_scrubbed(struct str text, size_t len_max, struct strbuf *out, bool *out_same)
{
    struct strbuf clean;
    struct str begin = cut(text, len_max * 2);
    strbuf_init(&clean, begin.len * 2 + 64);
    bool is_changed = redaction_scrub_if(begin, &clean);
    struct str kept = cut(is_changed ? strbuf_str(&clean) : begin, len_max);
    *out_same = !is_changed && kept.len == text.len;
    bool good = !clean.overflow;
    if (good && !*out_same) json_writer_write_text(out, kept);
    strbuf_finish(&clean);
    return good;
}

// "run(0:item)" may show the item; "run(0)" is an attempt.
static bool write_node_name(struct str text, struct strbuf *out, bool *out_same)
{
    char kept[260];
    size_t len = 0;
    if (text.len > 253) return false;
    *out_same = true;
    for (size_t i = 0; i < text.len; i++) {
        kept[len++] = text.at[i];
        size_t digits = text.at[i] == '(' ? digits_at(text, i + 1) : 0;
        if (!digits || i + 1 + digits >= text.len || text.at[i + 1 + digits] != ':') continue;
        // To the last bracket: an item may have brackets, too.
        size_t last = text.len - 1;
        while (last > i && text.at[last] != ')')
            last--;
        memcpy(kept + len, text.at + i + 1, digits);
        len += digits;
        *out_same = false;
        i = last > i ? last - 1 : text.len;
    }
    if (!consists_of(str_of(kept, len), sizeof kept, "._-/:*~() []")) return false;
    if (!*out_same) json_writer_write_text(out, str_of(kept, len));
    return true;
}

static bool write_string(enum redaction_type type, struct str text, struct strbuf *out, bool *out_same)
{
    switch (type) {
    case REDACTION_NODE_NAME: return write_node_name(text, out, out_same);
    case REDACTION_URL: return is_one_line(text, 2048) && write_scrubbed(text, 2048, out, out_same);
    case REDACTION_TITLE: return write_scrubbed(text, 253, out, out_same);
    case REDACTION_TEXT: return write_scrubbed(text, REDACTION_TEXT_BYTES_MAX, out, out_same);
    case REDACTION_LONG_TEXT:
    case REDACTION_OPEN: return write_scrubbed(text, REDACTION_LONG_TEXT_BYTES_MAX, out, out_same);
    default: return false;
    }
}

// ---- the whole -----------------------------------------------------------------------------------------------------

static bool write_quoted(enum redaction_type type, struct str raw, struct strbuf *out, bool *out_same)
{
    struct str inner = str_of(raw.at + 1, raw.len - 2);
    *out_same = true;
    if ((!inner.len && type != REDACTION_CLOSED && type != REDACTION_DEEP) || is_text(type, inner)) return true;
    if (type < REDACTION_OPEN || (type > REDACTION_OPEN && type < REDACTION_URL)) return false;
    if (!memchr(inner.at, '\\', inner.len)) return write_string(type, inner, out, out_same);
    // With escapes, which jansson takes apart.
    json_t *value = json_loadb(raw.at, raw.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool good = json_is_string(value) &&
                write_string(type, str_of(json_string_value(value), json_string_length(value)), out, out_same);
    json_decref(value);
    return good;
}

bool redaction_value_write(enum redaction_type type, struct str raw, struct strbuf *out, bool *out_same)
{
    *out_same = true;
    if (raw.at[0] == '"') return write_quoted(type, raw, out, out_same);
    bool is_number = raw.at[0] == '-' || is_digit(raw.at[0]);
    bool is_open = type == REDACTION_OPEN;
    if (is_number)
        is_open = is_open || type == REDACTION_NUMBER || type == REDACTION_QUANTITY || type == REDACTION_MEASURE ||
                  type == REDACTION_DURATION || type == REDACTION_PORT;
    else
        is_open = is_open || type == REDACTION_BOOL;
    return is_open;
}
