#include "agent/reports/json_splitter.h"

enum { DEPTH_MAX = 1024, WORD_BYTES_MAX = 16 };

void json_splitter_init(struct json_splitter *splitter, enum json_splitter_shape shape,
                        bool (*on_object)(void *arg, struct str text), void *arg)
{
    *splitter = (struct json_splitter){.shape = shape, .on_object = on_object, .arg = arg};
    strbuf_init(&splitter->object, JSON_SPLITTER_OBJECT_BYTES_MAX);
    strbuf_init(&splitter->envelope, JSON_SPLITTER_ENVELOPE_BYTES_MAX);
    strbuf_init(&splitter->word, WORD_BYTES_MAX);
}

void json_splitter_finish(struct json_splitter *splitter)
{
    strbuf_finish(&splitter->object);
    strbuf_finish(&splitter->envelope);
    strbuf_finish(&splitter->word);
}

struct str json_splitter_envelope(const struct json_splitter *splitter)
{
    return splitter->ended ? strbuf_str(&splitter->envelope) : STR_EMPTY;
}

// Depth at which a piece starts: its own bracket is not open yet.
static size_t base_depth(const struct json_splitter *splitter)
{
    return splitter->in_items ? 2 : 0;
}

static void keep(struct json_splitter *splitter, const char *at, size_t len)
{
    if (splitter->skipping || len == 0) return;
    if (strbuf_add(&splitter->object, at, len)) return;
    splitter->skipping = true;
    splitter->skipped++;
    strbuf_clear(&splitter->object);
}

static enum error_code finish_piece(struct json_splitter *splitter, struct error *err)
{
    bool go_on = splitter->skipping || splitter->on_object(splitter->arg, strbuf_str(&splitter->object));
    splitter->skipping = false;
    splitter->object.overflow = false;
    // One huge object must not keep its memory for the life of a watch.
    bool huge = splitter->object.cap > 256 * 1024;
    strbuf_clear(&splitter->object);
    if (huge) strbuf_shrink(&splitter->object);
    return go_on ? ERROR_NONE : error_set(err, ERROR_CANCELLED, "stopped by the reader");
}

// Length of the run from at inside a string: up to and with what ends it, or all there is.
static size_t string_run(struct json_splitter *splitter, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (splitter->escaped) {
            splitter->escaped = false;
        } else if (at[i] == '\\') {
            splitter->escaped = true;
        } else if (at[i] == '"') {
            splitter->in_string = false;
            return i + 1;
        }
    }
    return len;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// A byte of a piece (or between pieces) that is outside strings.
static enum error_code piece_byte(struct json_splitter *splitter, const char *at, struct error *err)
{
    size_t base = base_depth(splitter);
    bool between = splitter->depth == base;
    if (between && (is_space(*at) || (splitter->in_items && *at == ','))) return ERROR_NONE;
    if (between && *at != '{') return error_set(err, ERROR_INVALID, "expected an object");
    keep(splitter, at, 1);
    if (*at == '"') splitter->in_string = true;
    if (*at == '{' || *at == '[') {
        if (++splitter->depth > DEPTH_MAX) return error_set(err, ERROR_INVALID, "nested too deep");
    } else if (*at == '}' || *at == ']') {
        if (--splitter->depth == base) return finish_piece(splitter, err);
    }
    return ERROR_NONE;
}

// A byte of the list's outer object that is outside strings. `word` is the last string at depth 1, and stays so
// until a comma or a value's bracket: with "items" in it, the next bracket opens the items.
static enum error_code envelope_byte(struct json_splitter *splitter, char c, struct error *err)
{
    if (splitter->depth == 0 && is_space(c)) return ERROR_NONE;
    if (splitter->ended || (splitter->depth == 0 && c != '{'))
        return error_set(err, ERROR_INVALID, "expected one object");
    if (!strbuf_add_byte(&splitter->envelope, c))
        return error_set(err, ERROR_TOO_LARGE, "the list's head is too large");
    if (c == '"') {
        splitter->in_string = true;
        if (splitter->depth == 1) {
            strbuf_clear(&splitter->word);
            splitter->word.overflow = false;
        }
    } else if (c == '{' || c == '[') {
        bool items = c == '[' && splitter->depth == 1 && !splitter->word.overflow &&
                     str_eq(strbuf_str(&splitter->word), STR("items\""));
        if (++splitter->depth > DEPTH_MAX) return error_set(err, ERROR_INVALID, "nested too deep");
        splitter->in_items = items;
    } else if (c == '}' || c == ']') {
        splitter->ended = --splitter->depth == 0;
    } else if (c == ',' && splitter->depth == 1) {
        strbuf_clear(&splitter->word);
        splitter->word.overflow = false;
    }
    return ERROR_NONE;
}

static enum error_code outside_string(struct json_splitter *splitter, const char *at, struct error *err)
{
    if (splitter->shape == JSON_SPLITTER_SEQUENCE) return piece_byte(splitter, at, err);
    if (splitter->in_items && (splitter->depth > 2 || *at != ']')) return piece_byte(splitter, at, err);
    splitter->in_items = false;
    return envelope_byte(splitter, *at, err);
}

enum error_code json_splitter_feed(struct json_splitter *splitter, const char *at, size_t len, struct error *err)
{
    for (size_t i = 0; i < len;) {
        if (splitter->in_string) {
            size_t run = string_run(splitter, at + i, len - i);
            if (splitter->shape == JSON_SPLITTER_SEQUENCE || splitter->in_items) {
                keep(splitter, at + i, run);
            } else {
                if (!strbuf_add(&splitter->envelope, at + i, run))
                    return error_set(err, ERROR_TOO_LARGE, "the list's head is too large");
                if (splitter->depth == 1) strbuf_add(&splitter->word, at + i, run);
            }
            i += run;
        } else {
            enum error_code code = outside_string(splitter, at + i, err);
            if (code != ERROR_NONE) return code;
            i++;
        }
    }
    return ERROR_NONE;
}
