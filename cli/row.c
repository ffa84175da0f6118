#include "cli/row.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"

enum { SHORT_CHARACTERS = 12, LINE_CHARACTERS = 60 };

const json_t *row_at(const json_t *row, const char *path)
{
    struct str rest = str_c(path), member;
    bool has_more = true;
    while (row && has_more) {
        has_more = str_cut(&rest, '.', &member);
        row = json_object_getn(row, member.at, member.len);
    }
    return json_is_null(row) ? NULL : row;
}

const char *row_text(const json_t *row, const char *path)
{
    return path ? json_string_value(row_at(row, path)) : NULL;
}

void row_write_safe(struct str text, bool is_block, struct strbuf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        bool is_c1 = byte == 0xc2 && i + 1 < text.len && (unsigned char)text.at[i + 1] < 0xa0;
        if (is_c1) i++;
        if (is_c1 || ((byte < 0x20 || byte == 0x7f) && !(is_block && byte == '\n')))
            strbuf_add_byte(out, '?');
        else
            strbuf_add_byte(out, (char)byte);
    }
}

static void write_list(const json_t *list, struct strbuf *out)
{
    const json_t *first = json_array_get(list, 0);
    if (json_is_object(first) || json_is_array(first)) {
        strbuf_addf(out, "%zu", json_array_size(list));
        return;
    }
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value)
    {
        if (i) strbuf_add_byte(out, ',');
        row_write(value, out);
    }
}

void row_write(const json_t *value, struct strbuf *out)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING: row_write_safe(str_of(json_string_value(value), json_string_length(value)), false, out); break;
    case JSON_INTEGER: strbuf_addf(out, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: strbuf_addf(out, "%.6g", json_real_value(value)); break;
    case JSON_TRUE: strbuf_add_c(out, "true"); break;
    case JSON_FALSE: strbuf_add_c(out, "false"); break;
    case JSON_ARRAY: write_list(value, out); break;
    case JSON_OBJECT: strbuf_addf(out, "%zu", json_object_size(value)); break;
    default: break;
    }
}

// As kubectl's ages: the two largest units while the first is small.
static void write_age(int64_t ms, struct strbuf *out)
{
    int64_t s = ms > 0 ? ms / 1000 : 0, minutes = s / 60, hours = minutes / 60, days = hours / 24;
    if (s < 120) {
        strbuf_addf(out, "%llds", (long long)s);
    } else if (minutes < 10) {
        strbuf_addf(out, "%lldm%llds", (long long)minutes, (long long)(s % 60));
    } else if (minutes < 180) {
        strbuf_addf(out, "%lldm", (long long)minutes);
    } else if (hours < 8) {
        strbuf_addf(out, "%lldh%lldm", (long long)hours, (long long)(minutes % 60));
    } else if (hours < 48) {
        strbuf_addf(out, "%lldh", (long long)hours);
    } else if (days < 8) {
        strbuf_addf(out, "%lldd%lldh", (long long)days, (long long)(hours % 24));
    } else if (days < 365 * 2) {
        strbuf_addf(out, "%lldd", (long long)days);
    } else {
        strbuf_addf(out, "%lldy%lldd", (long long)(days / 365), (long long)(days % 365));
    }
}

static bool write_time(struct str text, enum column_kind kind, int64_t now_ms, struct strbuf *out)
{
    int64_t at_ms;
    if (clock_parse_rfc3339(text, &at_ms, NULL) != ERROR_NONE) return false;
    if (kind == COLUMN_AGE) {
        write_age(now_ms - at_ms, out);
    } else {
        char formatted[CLOCK_RFC3339_BYTES];
        clock_format_rfc3339(at_ms, formatted);
        strbuf_addf(out, "%.19sZ", formatted);
    }
    return true;
}

// The first of at most `max` characters; UTF-8 is not cut inside a character.
static struct str first_characters(struct str text, size_t max)
{
    size_t at = 0;
    for (size_t count = 0; at < text.len; at++) {
        if (((unsigned char)text.at[at] & 0xc0) != 0x80 && count++ == max) break;
    }
    return str_first(text, at);
}

static void write_start(struct str text, enum column_kind kind, struct strbuf *out)
{
    struct str rest = text, line = text;
    if (kind == COLUMN_LINE) str_cut(&rest, '\n', &line);
    struct str start = first_characters(line, kind == COLUMN_LINE ? LINE_CHARACTERS : SHORT_CHARACTERS);
    row_write_safe(start, false, out);
    if (kind == COLUMN_LINE && start.len < text.len) strbuf_add_c(out, "...");
}

void row_cell(const json_t *row, const char *path, enum column_kind kind, int64_t now_ms, struct strbuf *out)
{
    const json_t *value = row_at(row, path);
    size_t before = out->len;
    struct str text = str_of(json_string_value(value), json_string_length(value));
    bool is_time = kind == COLUMN_AGE || kind == COLUMN_TIME;
    if (json_is_string(value) && is_time && write_time(text, kind, now_ms, out)) return;
    if (json_is_string(value) && (kind == COLUMN_SHORT || kind == COLUMN_LINE)) {
        write_start(text, kind, out);
    } else {
        row_write(value, out);
    }
    if (out->len == before) strbuf_add_c(out, "<none>");
}

void row_reference(const struct noun *noun, const json_t *row, struct strbuf *out)
{
    const char *runtime = row_text(row, noun->runtime_path), *namespace = row_text(row, noun->namespace_path);
    if (runtime) {
        row_write_safe(str_c(runtime), false, out);
        strbuf_add_byte(out, '/');
    }
    if (namespace) {
        row_write_safe(str_c(namespace), false, out);
        strbuf_add_byte(out, '/');
    }
    row_write(row_at(row, noun->name_path), out);
}
