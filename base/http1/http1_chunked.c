#include "base/http1/http1.h"

// RFC 9112 section 7.1. Sizes are plain hex with nothing around them; extensions are read over; trailers must be
// well-formed field lines; they are dropped, which section 7.1.2 allows to any recipient, unless the owner asks for
// them.
enum chunked_state {
    SIZE_FIRST, // a hex digit must come
    SIZE,       // hex digits, ';' or CR
    EXTENSION_FIRST,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST, // a field name or the closing CR
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    DONE,
};

enum {
    SIZE_DIGITS_MAX = 15, // below 2^60: no overflow in anybody's integers
    EXTENSION_BYTES_MAX = 256,
    TRAILER_BYTES_MAX = 8 * 1024,
    EXTENSION_BYTES_TOTAL_MAX = 96 * 1024,
};

void http1_chunked_init(struct http1_chunked *c)
{
    *c = (struct http1_chunked){.state = SIZE_FIRST};
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static enum error_code bad(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID, "chunked body: %s", what);
}

static bool is_text(char c)
{
    return http1_is_field_value(str_of(&c, 1));
}

static enum error_code expect_byte(struct http1_chunked *c, char byte, char wanted, enum chunked_state next,
                                   struct error *err)
{
    if (byte != wanted) return bad(err, "line does not end in CR LF");
    c->state = (int)next;
    return ERROR_NONE;
}

static enum error_code feed_size(struct http1_chunked *c, char byte, struct error *err)
{
    int digit = hex_value(byte);
    if (digit >= 0) {
        if (c->line_bytes++ == SIZE_DIGITS_MAX) return bad(err, "chunk size has too many digits");
        c->left = c->left * 16 + (uint64_t)digit;
        c->state = SIZE;
        return ERROR_NONE;
    }
    if (c->state == SIZE_FIRST) return bad(err, "chunk size is not hex");
    if (byte == '\r') {
        c->state = SIZE_LF;
    } else if (byte == ';') {
        c->line_bytes = 0;
        c->state = EXTENSION_FIRST;
    } else {
        return bad(err, "chunk size is not hex");
    }
    return ERROR_NONE;
}

static enum error_code feed_extension(struct http1_chunked *c, char byte, struct error *err)
{
    if (byte == '\r' && c->state == EXTENSION) {
        c->state = SIZE_LF;
        return ERROR_NONE;
    }
    if (c->state == EXTENSION_FIRST ? !http1_is_token(str_of(&byte, 1)) : !is_text(byte))
        return bad(err, "malformed chunk extension");
    c->state = EXTENSION;
    if (c->line_bytes++ == EXTENSION_BYTES_MAX) return bad(err, "chunk extension is too long");
    if (c->trailer_bytes++ == EXTENSION_BYTES_TOTAL_MAX) return bad(err, "too many chunk extensions");
    return ERROR_NONE;
}

static enum error_code feed_trailer(struct http1_chunked *c, char byte, struct error *err)
{
    if (c->trailer_bytes++ == TRAILER_BYTES_MAX) return bad(err, "trailers are too long");
    if (c->state == TRAILER_FIRST && byte == '\r') {
        c->state = LAST_LF;
    } else if (c->state == TRAILER_FIRST || c->state == TRAILER_NAME) {
        if (byte == ':' && c->state == TRAILER_NAME) {
            c->state = TRAILER_VALUE;
        } else {
            if (!http1_is_token(str_of(&byte, 1))) return bad(err, "malformed trailer name");
            c->state = TRAILER_NAME;
        }
    } else if (byte == '\r') {
        c->state = TRAILER_LF;
    } else if (!is_text(byte)) {
        return bad(err, "control byte in a trailer");
    }
    return ERROR_NONE;
}

static void begin_chunk(struct http1_chunked *c)
{
    if (c->left > 0) {
        c->state = DATA;
        return;
    }
    c->state = TRAILER_FIRST;
    c->trailer_bytes = 0;
}

static enum error_code feed_byte(struct http1_chunked *c, char byte, struct error *err)
{
    enum error_code code = ERROR_NONE;
    switch ((enum chunked_state)c->state) {
    case SIZE_FIRST:
    case SIZE: return feed_size(c, byte, err);
    case EXTENSION_FIRST:
    case EXTENSION: return feed_extension(c, byte, err);
    case SIZE_LF:
        code = expect_byte(c, byte, '\n', DATA, err);
        if (code == ERROR_NONE) begin_chunk(c);
        return code;
    case DATA_CR: return expect_byte(c, byte, '\r', DATA_LF, err);
    case DATA_LF: c->line_bytes = 0; return expect_byte(c, byte, '\n', SIZE_FIRST, err);
    case TRAILER_FIRST:
    case TRAILER_NAME:
    case TRAILER_VALUE: return feed_trailer(c, byte, err);
    case TRAILER_LF: return expect_byte(c, byte, '\n', TRAILER_FIRST, err);
    case LAST_LF: return expect_byte(c, byte, '\n', DONE, err);
    case DATA:
    case DONE: break; // not read byte by byte
    }
    return error_set(err, ERROR_INTERNAL, "chunked body: state %d", c->state);
}

enum error_code http1_chunked_feed(struct http1_chunked *c, const char *at, size_t len, size_t *out_used,
                                   struct str *out_data, bool *out_done, struct error *err)
{
    size_t used = 0;
    struct str data = STR_EMPTY;
    while (used < len && c->state != DONE && c->state != DATA) {
        if (c->trailers && c->state >= TRAILER_FIRST && c->state <= TRAILER_LF) strbuf_add_byte(c->trailers, at[used]);
        enum error_code code = feed_byte(c, at[used], err);
        if (code != ERROR_NONE) return code;
        used++;
    }
    if (used < len && c->state == DATA) {
        size_t take = c->left < len - used ? (size_t)c->left : len - used;
        data = str_of(at + used, take);
        used += take;
        c->left -= take;
        if (c->left == 0) c->state = DATA_CR;
    }
    *out_used = used;
    *out_data = data;
    *out_done = c->state == DONE;
    return ERROR_NONE;
}

size_t http1_parse_trailers(struct str text, struct http_header *out, size_t out_max)
{
    struct str line, name;
    size_t n = 0;
    bool more = true;
    while (more && n < out_max) {
        more = str_cut(&text, '\n', &line);
        if (line.len > 0 && line.at[line.len - 1] == '\r') line.len--;
        if (line.len > 0 && str_cut(&line, ':', &name)) out[n++] = (struct http_header){name, str_trim(line)};
    }
    return n;
}
