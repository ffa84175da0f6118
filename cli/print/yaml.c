#include "cli/print/yaml.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/json/json_writer.h"

static bool is_word_of_yaml(struct str text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",   "on",
                                        "off",  "y",    "n",     "~",   ".inf", ".nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_eq_nocase(text, str_c(words[i]))) return true;
    }
    return false;
}

// Text that means itself without quotes in every YAML: words of letters, digits and few others,
// that do not look like a number or a date.
static bool is_plain(struct str text)
{
    if (!text.len || text.len > 200 || is_word_of_yaml(text)) return false;
    unsigned char first = (unsigned char)text.at[0];
    if (!isalpha(first) && first != '/') return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool is_space = c == ' ' && i + 1 < text.len && text.at[i + 1] != '#' && text.at[i + 1] != ' ';
        bool is_colon = c == ':' && i + 1 < text.len && text.at[i + 1] != ' ';
        if (!isalnum(c) && !strchr("-_./@+", c) && !is_space && !is_colon) return false;
    }
    return true;
}

static bool is_block_text(struct str text)
{
    if (!str_has_byte(text, '\n') || text.at[0] == ' ' || text.at[0] == '\n') return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if ((c < 0x20 && c != '\n') || c == 0x7f || c == 0xc2 || c == 0xe2) return false;
    }
    return true;
}

static void write_block_text(struct str text, int indent, struct strbuf *out)
{
    bool has_end = text.at[text.len - 1] == '\n';
    bool has_more_ends = has_end && text.len > 1 && text.at[text.len - 2] == '\n';
    strbuf_addf(out, has_more_ends ? "|+\n" : has_end ? "|\n" : "|-\n");
    struct str rest = has_end ? str_first(text, text.len - 1) : text, line;
    bool has_more = true;
    while (has_more) {
        has_more = str_cut(&rest, '\n', &line);
        if (line.len) strbuf_addf(out, "%*s%.*s", indent, "", STR_ARG(line));
        strbuf_add_byte(out, '\n');
    }
}

static void write_text(struct str text, int indent, struct strbuf *out)
{
    if (is_plain(text)) {
        strbuf_add_str(out, text);
    } else if (is_block_text(text)) {
        write_block_text(text, indent, out);
        return;
    } else {
        strbuf_add_json(out, text); // a JSON string is a double-quoted scalar
    }
    strbuf_add_byte(out, '\n');
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || (json_is_array(value) && !json_array_size(value)) ||
           (json_is_object(value) && !json_object_size(value)) || (json_is_string(value) && !json_string_length(value));
}

static void write_scalar(const json_t *value, int indent, struct strbuf *out)
{
    if (json_is_string(value)) {
        write_text(str_of(json_string_value(value), json_string_length(value)), indent, out);
        return;
    }
    if (json_is_array(value) || json_is_object(value)) {
        strbuf_add_c(out, json_is_array(value) ? "[]" : "{}");
    } else {
        json_writer_write(out, value, false);
    }
    strbuf_add_byte(out, '\n');
}

static bool has_lines(const json_t *value)
{
    return (json_is_array(value) && json_array_size(value)) || (json_is_object(value) && json_object_size(value));
}

static void write_list(const json_t *list, int indent, bool is_brief, struct strbuf *out)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        strbuf_addf(out, "%*s- ", indent, "");
        if (!has_lines(item)) {
            write_scalar(item, indent + 2, out);
            continue;
        }
        // The first line of the item stands beside the dash.
        struct strbuf lines;
        strbuf_init(&lines, out->max);
        yaml_write(item, indent + 2, is_brief, &lines);
        if (lines.len) {
            strbuf_add_str(out, str_from(strbuf_str(&lines), (size_t)indent + 2));
        } else {
            strbuf_add_c(out, "{}\n");
        }
        strbuf_finish(&lines);
    }
}

void yaml_write(const json_t *value, int indent, bool is_brief, struct strbuf *out)
{
    if (!has_lines(value)) {
        strbuf_addf(out, "%*s", indent, "");
        write_scalar(value, indent, out);
        return;
    }
    if (json_is_array(value)) {
        write_list(value, indent, is_brief, out);
        return;
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        if (is_brief && is_empty(member)) continue;
        strbuf_addf(out, "%*s", indent, "");
        struct str name = str_c(key);
        if (is_plain(name)) {
            strbuf_add_str(out, name);
        } else {
            strbuf_add_json(out, name);
        }
        strbuf_add_c(out, has_lines(member) ? ":\n" : ": ");
        if (has_lines(member)) {
            yaml_write(member, indent + 2, is_brief, out);
        } else {
            write_scalar(member, indent + 2, out);
        }
    }
}
