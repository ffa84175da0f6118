#include "base/json/json_writer.h"

#include <stdint.h>

#include "base/json/json_text.h"
#include "base/mem.h"

enum { KEYS_INLINE = 32, REAL_BYTES_MAX = 128 };

struct member {
    struct str key;
    json_t *value;
};

static void write_string(struct strbuf *out, const char *at, size_t len)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *end = at + len;
    unsigned char all = 0; // of no interest: json_t holds UTF-8
    strbuf_add_byte(out, '"');
    for (;;) {
        const char *begin = at;
        at = json_text_plain_end(at, end, &all);
        strbuf_add(out, begin, (size_t)(at - begin));
        if (at == end) break;
        char c = *at++;
        switch (c) {
        case '"': strbuf_add(out, "\\\"", 2); break;
        case '\\': strbuf_add(out, "\\\\", 2); break;
        case '\b': strbuf_add(out, "\\b", 2); break;
        case '\f': strbuf_add(out, "\\f", 2); break;
        case '\n': strbuf_add(out, "\\n", 2); break;
        case '\r': strbuf_add(out, "\\r", 2); break;
        case '\t': strbuf_add(out, "\\t", 2); break;
        default: {
            char code[6] = {'\\', 'u', '0', '0', hex[(unsigned char)c >> 4], hex[(unsigned char)c & 15]};
            strbuf_add(out, code, sizeof code);
        }
        }
    }
    strbuf_add_byte(out, '"');
}

void json_writer_write_text(struct strbuf *out, struct str text)
{
    write_string(out, text.at ? text.at : "", text.len);
}

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int order = memcmp(x->key.at, y->key.at, x->key.len < y->key.len ? x->key.len : y->key.len);
    if (order) return order;
    return (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

static void write_object(struct strbuf *out, const json_t *object, bool sorted)
{
    struct member few[KEYS_INLINE];
    size_t count = json_object_size(object), i = 0;
    struct member *members = count > KEYS_INLINE ? mem_array(count, sizeof *members) : few;
    json_t *any = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(any); at; at = json_object_iter_next(any, at))
        members[i++] =
            (struct member){str_of(json_object_iter_key(at), json_object_iter_key_len(at)), json_object_iter_value(at)};
    if (sorted && count > 1) qsort(members, count, sizeof *members, compare_members);
    strbuf_add_byte(out, '{');
    for (i = 0; i < count; i++) {
        if (i) strbuf_add_byte(out, ',');
        write_string(out, members[i].key.at, members[i].key.len);
        strbuf_add_byte(out, ':');
        json_writer_write(out, members[i].value, sorted);
    }
    strbuf_add_byte(out, '}');
    if (members != few) mem_free(members);
}

static void write_array(struct strbuf *out, const json_t *array, bool sorted)
{
    size_t i;
    json_t *each;
    strbuf_add_byte(out, '[');
    json_array_foreach((json_t *)(uintptr_t)array, i, each)
    {
        if (i) strbuf_add_byte(out, ',');
        json_writer_write(out, each, sorted);
    }
    strbuf_add_byte(out, ']');
}

// As jansson writes it.
static void write_real(struct strbuf *out, const json_t *value)
{
    char text[REAL_BYTES_MAX];
    size_t len = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY);
    if (len > 0 && len <= sizeof text)
        strbuf_add(out, text, len);
    else
        strbuf_add_c(out, "null");
}

void json_writer_write(struct strbuf *out, const json_t *value, bool sorted)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_object(out, value, sorted); break;
    case JSON_ARRAY: write_array(out, value, sorted); break;
    case JSON_STRING: write_string(out, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: strbuf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
    case JSON_REAL: write_real(out, value); break;
    case JSON_TRUE: strbuf_add_c(out, "true"); break;
    case JSON_FALSE: strbuf_add_c(out, "false"); break;
    case JSON_NULL: strbuf_add_c(out, "null"); break;
    }
}
