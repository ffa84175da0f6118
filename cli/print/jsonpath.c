#include "cli/print/jsonpath.h"

#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/row.h"

// A path that is read: errors name the byte.
struct reader {
    struct str text;
    size_t at;
    size_t depth;
    struct error *err;
};

static enum error_code fail(const struct reader *reader, const char *what)
{
    return error_set(reader->err, ERROR_INVALID, "jsonpath: %s at character %zu of \"%.*s\"", what, reader->at + 1,
                     (int)(reader->text.len > 200 ? 200 : reader->text.len), reader->text.at ? reader->text.at : "");
}

static char peek(const struct reader *reader)
{
    return reader->at < reader->text.len ? reader->text.at[reader->at] : '\0';
}

static bool take(struct reader *reader, char c)
{
    if (reader->at >= reader->text.len || reader->text.at[reader->at] != c) return false;
    reader->at++;
    return true;
}

static void skip_spaces(struct reader *reader)
{
    while (take(reader, ' ')) {}
}

static bool append(const struct reader *reader, json_t *values, const json_t *value)
{
    (void)reader;
    return json_array_size(values) < JSONPATH_VALUES_MAX && json_array_append(values, (json_t *)value) == 0;
}

static struct str take_name(struct reader *reader)
{
    size_t start = reader->at;
    while (reader->at < reader->text.len && !strchr(".[]{}()=!<>?,'\" @:*", reader->text.at[reader->at]))
        reader->at += reader->text.at[reader->at] == '\\' && reader->at + 1 < reader->text.len ? 2 : 1;
    return str_of(reader->text.at + start, reader->at - start);
}

// Names may have "\." for a dot that is theirs.
static void add_member(const struct reader *reader, const json_t *value, struct str name, json_t *out)
{
    struct strbuf plain;
    strbuf_init(&plain, JSONPATH_TEMPLATE_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++) {
        if (name.at[i] == '\\' && i + 1 < name.len) i++;
        strbuf_add_byte(&plain, name.at[i]);
    }
    const json_t *member = json_object_getn(value, plain.at ? plain.at : "", plain.len);
    if (member) append(reader, out, member);
    strbuf_finish(&plain);
}

static void add_all(const struct reader *reader, const json_t *value, json_t *out)
{
    size_t i;
    const char *key;
    json_t *member;
    json_array_foreach(value, i, member) append(reader, out, member);
    json_object_foreach((json_t *)value, key, member) append(reader, out, member);
}

// The value and all that it contains; answers are at most 128 levels deep (client.c).
static void add_descendants(const struct reader *reader, const json_t *value, json_t *out)
{
    size_t i;
    const char *key;
    json_t *member;
    append(reader, out, value);
    json_array_foreach(value, i, member) add_descendants(reader, member, out);
    json_object_foreach((json_t *)value, key, member) add_descendants(reader, member, out);
}

static enum error_code take_path(struct reader *reader, json_t **values);

enum comparison { COMPARE_IS_THERE, COMPARE_EQ, COMPARE_NE, COMPARE_LT, COMPARE_LE, COMPARE_GT, COMPARE_GE };

static enum comparison take_comparison(struct reader *reader)
{
    static const struct {
        const char *text;
        enum comparison comparison;
    } all[] = {{"==", COMPARE_EQ}, {"!=", COMPARE_NE}, {"<=", COMPARE_LE},
               {">=", COMPARE_GE}, {"<", COMPARE_LT},  {">", COMPARE_GT}};
    struct str rest = str_from(reader->text, reader->at);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!str_starts(rest, str_c(all[i].text))) continue;
        reader->at += strlen(all[i].text);
        return all[i].comparison;
    }
    return COMPARE_IS_THERE;
}

// A number, true, false, or text in either quotes.
static enum error_code take_literal(struct reader *reader, json_t **out)
{
    char quote = peek(reader);
    size_t start = reader->at;
    if (quote == '"' || quote == '\'') {
        start = ++reader->at;
        while (reader->at < reader->text.len && peek(reader) != quote)
            reader->at++;
        struct str text = str_of(reader->text.at + start, reader->at - start);
        if (!take(reader, quote)) return fail(reader, "a quote is not closed");
        *out = json_stringn(text.at, text.len);
        return *out ? ERROR_NONE : fail(reader, "no valid UTF-8");
    }
    while (reader->at < reader->text.len && !strchr(")] ", peek(reader)))
        reader->at++;
    *out = json_loadb(reader->text.at + start, reader->at - start, JSON_DECODE_ANY, NULL);
    if (*out && (json_is_number(*out) || json_is_boolean(*out))) return ERROR_NONE;
    json_decref(*out);
    *out = NULL;
    return fail(reader, "expected a number or a text in quotes");
}

static bool compares(const json_t *left, enum comparison comparison, const json_t *right)
{
    double difference;
    if (json_is_number(left) && json_is_number(right)) {
        double a = json_number_value(left), b = json_number_value(right);
        difference = a < b ? -1 : a > b;
    } else if (json_is_string(left) && json_is_string(right)) {
        difference = strcmp(json_string_value(left), json_string_value(right));
    } else if (comparison == COMPARE_EQ || comparison == COMPARE_NE) {
        return json_equal(left, right) == (comparison == COMPARE_EQ);
    } else {
        return false;
    }
    switch (comparison) {
    case COMPARE_EQ: return difference == 0;
    case COMPARE_NE: return difference != 0;
    case COMPARE_LT: return difference < 0;
    case COMPARE_LE: return difference <= 0;
    case COMPARE_GT: return difference > 0;
    case COMPARE_GE: return difference >= 0;
    default: return false;
    }
}

// Whether the item is taken; the reader is left behind the condition.
static enum error_code take_condition(struct reader *reader, const json_t *item, bool *out)
{
    json_t *left = json_array(), *right = NULL;
    append(reader, left, item);
    enum error_code code = take_path(reader, &left);
    skip_spaces(reader);
    enum comparison comparison = take_comparison(reader);
    skip_spaces(reader);
    if (code == ERROR_NONE && comparison != COMPARE_IS_THERE) code = take_literal(reader, &right);
    const json_t *first = json_array_get(left, 0);
    *out = code == ERROR_NONE && first && (comparison == COMPARE_IS_THERE || compares(first, comparison, right));
    skip_spaces(reader);
    if (code == ERROR_NONE && !(take(reader, ')') && take(reader, ']'))) code = fail(reader, "expected )]");
    json_decref(left);
    json_decref(right);
    return code;
}

static enum error_code take_filter(struct reader *reader, const json_t *values, json_t *out)
{
    size_t start = reader->at, end = start, i;
    if (reader->depth++ == JSONPATH_DEPTH_MAX) return fail(reader, "too many conditions inside of each other");
    json_t *items = json_array();
    const json_t *value;
    json_array_foreach(values, i, value) add_all(reader, value, items);
    // Without an item the condition is read all the same, to find its end and its mistakes.
    bool is_none = json_array_size(items) == 0, is_taken;
    if (is_none) json_array_append_new(items, json_null());
    enum error_code code = ERROR_NONE;
    json_array_foreach(items, i, value)
    {
        reader->at = start;
        code = take_condition(reader, value, &is_taken);
        if (code != ERROR_NONE) break;
        end = reader->at;
        if (is_taken && !is_none) append(reader, out, value);
    }
    reader->at = code == ERROR_NONE ? end : reader->at;
    reader->depth--;
    json_decref(items);
    return code;
}

static bool take_number(struct reader *reader, int64_t *out)
{
    size_t start = reader->at;
    take(reader, '-');
    while (peek(reader) >= '0' && peek(reader) <= '9')
        reader->at++;
    return parse_i64(str_of(reader->text.at + start, reader->at - start), -1000000, 1000000, out, NULL) == ERROR_NONE;
}

static void add_slice(const struct reader *reader, const json_t *list, int64_t from, int64_t to, json_t *out)
{
    int64_t size = (int64_t)json_array_size(list);
    if (from < 0) from += size;
    if (to < 0) to += size;
    if (from < 0) from = 0;
    for (int64_t i = from; i < to && i < size; i++)
        append(reader, out, json_array_get(list, (size_t)i));
}

// "3]", "-1]", "1:3]", ":2]"
static enum error_code take_index(struct reader *reader, const json_t *values, json_t *out)
{
    int64_t from = 0, to;
    size_t i;
    const json_t *value;
    bool has_from = take_number(reader, &from), is_slice = take(reader, ':');
    bool has_to = is_slice && take_number(reader, &to);
    if (!has_from && !is_slice) return fail(reader, "expected an index, '*', a name in quotes or ?(...)");
    if (!take(reader, ']')) return fail(reader, "expected ]");
    json_array_foreach(values, i, value)
    {
        int64_t size = (int64_t)json_array_size(value), at = from < 0 ? from + size : from;
        if (is_slice) {
            add_slice(reader, value, from, has_to ? to : size, out);
        } else if (at >= 0 && at < size) {
            append(reader, out, json_array_get(value, (size_t)at));
        }
    }
    return ERROR_NONE;
}

static enum error_code take_brackets(struct reader *reader, const json_t *values, json_t *out)
{
    size_t i;
    const json_t *value;
    char quote = peek(reader);
    if (quote == '\'' || quote == '"') {
        size_t start = ++reader->at;
        while (reader->at < reader->text.len && peek(reader) != quote)
            reader->at++;
        struct str name = str_of(reader->text.at + start, reader->at - start);
        if (!take(reader, quote) || !take(reader, ']')) return fail(reader, "expected ']");
        json_array_foreach(values, i, value)
        {
            const json_t *member = json_object_getn(value, name.at, name.len);
            if (member) append(reader, out, member);
        }
        return ERROR_NONE;
    }
    if (take(reader, '*')) {
        json_array_foreach(values, i, value) add_all(reader, value, out);
        return take(reader, ']') ? ERROR_NONE : fail(reader, "expected ]");
    }
    if (quote == '?') {
        reader->at++;
        return take(reader, '(') ? take_filter(reader, values, out) : fail(reader, "expected (");
    }
    return take_index(reader, values, out);
}

static enum error_code take_dot(struct reader *reader, const json_t *values, json_t *out)
{
    size_t i;
    const json_t *value;
    if (take(reader, '.')) {
        json_array_foreach(values, i, value) add_descendants(reader, value, out);
        struct str name = take_name(reader);
        if (!name.len) return fail(reader, "expected a name behind ..");
        json_t *all = json_copy(out);
        json_array_clear(out);
        json_array_foreach(all, i, value) add_member(reader, value, name, out);
        json_decref(all);
        return ERROR_NONE;
    }
    if (take(reader, '*')) {
        json_array_foreach(values, i, value) add_all(reader, value, out);
        return ERROR_NONE;
    }
    struct str name = take_name(reader);
    if (!name.len && peek(reader) == '[') { // ".[0]"
        json_array_extend(out, (json_t *)values);
        return ERROR_NONE;
    }
    if (!name.len && reader->at < reader->text.len) return fail(reader, "expected a name");
    if (!name.len) { // "." is the value itself
        json_array_extend(out, (json_t *)values);
        return ERROR_NONE;
    }
    json_array_foreach(values, i, value) add_member(reader, value, name, out);
    return ERROR_NONE;
}

// Steps until something that is no step; *values is replaced by what they lead to.
static enum error_code take_path(struct reader *reader, json_t **values)
{
    if (peek(reader) == '@' || peek(reader) == '$') reader->at++;
    enum error_code code = ERROR_NONE;
    while (code == ERROR_NONE && (peek(reader) == '.' || peek(reader) == '[')) {
        json_t *next = json_array();
        code =
            take(reader, '.') ? take_dot(reader, *values, next) : (reader->at++, take_brackets(reader, *values, next));
        json_decref(*values);
        *values = next;
    }
    return code;
}

enum error_code jsonpath_find(struct str path, const json_t *value, json_t **out, struct error *err)
{
    struct reader reader = {.text = path, .err = err};
    json_t *values = json_array();
    append(&reader, values, value);
    skip_spaces(&reader);
    if (peek(&reader) != '.' && peek(&reader) != '[' && peek(&reader) != '@' && peek(&reader) != '$') {
        json_t *next = json_array();
        enum error_code code = take_dot(&reader, values, next);
        json_decref(values);
        values = next;
        if (code != ERROR_NONE) {
            json_decref(values);
            return code;
        }
    }
    enum error_code code = take_path(&reader, &values);
    skip_spaces(&reader);
    if (code == ERROR_NONE && reader.at < path.len) code = fail(&reader, "unexpected character");
    if (code == ERROR_NONE && json_array_size(values) == JSONPATH_VALUES_MAX)
        code = fail(&reader, "more than 1000000 values");
    if (code == ERROR_NONE) {
        *out = values;
    } else {
        json_decref(values);
    }
    return code;
}

// "\n", "\t", "\\", "\"" of a text in an expression.
static void write_escaped(struct str text, struct strbuf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '\\' && i + 1 < text.len) {
            c = text.at[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        strbuf_add_byte(out, c);
    }
}

static void write_values(const json_t *values, struct strbuf *out)
{
    size_t i;
    const json_t *value;
    json_array_foreach(values, i, value)
    {
        if (i) strbuf_add_byte(out, ' ');
        if (json_is_object(value) || json_is_array(value)) {
            size_t len;
            char *text = json_canonical(value, &len);
            strbuf_add_c(out, text);
            mem_free(text);
        } else if (json_is_string(value)) {
            row_write_safe(str_of(json_string_value(value), json_string_length(value)), true, out);
        } else {
            row_write(value, out);
        }
    }
}

// Where the expression that begins at `at` ends: its closing brace outside of quotes.
static size_t find_brace(struct str template, size_t at)
{
    char quote = '\0';
    for (; at < template.len; at++) {
        char c = template.at[at];
        if (quote && c == '\\') {
            at++;
        } else if (quote) {
            quote = c == quote ? '\0' : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '}') {
            return at;
        }
    }
    return template.len;
}

struct writer {
    struct str template;
    struct strbuf *out;
    struct error *err;
    size_t depth;
};

// Writes from *at to the end, or behind the {end} that closes this level. value NULL: only reads.
static enum error_code write_level(struct writer *writer, size_t *at, const json_t *value);

static enum error_code write_range(struct writer *writer, struct str path, size_t *at, const json_t *value)
{
    json_t *values = NULL, *nothing = json_null();
    enum error_code code = jsonpath_find(path, value ? value : nothing, &values, writer->err);
    if (code != ERROR_NONE) return code;
    size_t start = *at, i;
    const json_t *item;
    if (++writer->depth > JSONPATH_DEPTH_MAX)
        code = error_set(writer->err, ERROR_INVALID, "jsonpath: more than %d ranges inside of each other",
                         JSONPATH_DEPTH_MAX);
    if (code == ERROR_NONE) code = write_level(writer, at, NULL); // finds the {end}
    size_t end = *at;
    if (value) {
        json_array_foreach(values, i, item)
        {
            *at = start;
            if (code == ERROR_NONE) code = write_level(writer, at, item);
        }
    }
    *at = end;
    writer->depth--;
    json_decref(values);
    return code;
}

static enum error_code write_expression(struct writer *writer, struct str text, const json_t *value)
{
    text = str_trim(text);
    if (text.len >= 2 && (text.at[0] == '"' || text.at[0] == '\'') && text.at[text.len - 1] == text.at[0]) {
        if (value) write_escaped(str_of(text.at + 1, text.len - 2), writer->out);
        return ERROR_NONE;
    }
    json_t *values = NULL, *nothing = json_null();
    enum error_code code = jsonpath_find(text, value ? value : nothing, &values, writer->err);
    if (code == ERROR_NONE && value) write_values(values, writer->out);
    json_decref(values);
    return code;
}

static enum error_code write_level(struct writer *writer, size_t *at, const json_t *value)
{
    struct str template = writer->template;
    while (*at < template.len) {
        if (template.at[*at] != '{') {
            if (value) strbuf_add_byte(writer->out, template.at[*at]);
            ++*at;
            continue;
        }
        size_t start = *at + 1, end = find_brace(template, start);
        if (end == template.len)
            return error_set(writer->err, ERROR_INVALID, "jsonpath: the { at character %zu is not closed", start);
        struct str text = str_trim(str_of(template.at + start, end - start));
        *at = end + 1;
        enum error_code code;
        if (str_eq(text, STR("end"))) {
            if (!writer->depth) return error_set(writer->err, ERROR_INVALID, "jsonpath: {end} without {range}");
            return ERROR_NONE;
        }
        if (str_starts(text, STR("range "))) {
            code = write_range(writer, str_trim(str_from(text, 6)), at, value);
        } else {
            code = write_expression(writer, text, value);
        }
        if (code != ERROR_NONE) return code;
    }
    return writer->depth ? error_set(writer->err, ERROR_INVALID, "jsonpath: {range} without {end}") : ERROR_NONE;
}

enum error_code jsonpath_write(struct str template, const json_t *value, struct strbuf *out, struct error *err)
{
    if (template.len > JSONPATH_TEMPLATE_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "jsonpath: longer than %d bytes", JSONPATH_TEMPLATE_BYTES_MAX);
    struct writer writer = {.template = template, .out = out, .err = err};
    size_t at = 0;
    return write_level(&writer, &at, value);
}
