#include "api/graphql/lexer.h"

#include <stdint.h>

#include "base/parse.h"

static enum error_code syntax_error(const struct gql_lexer *lexer, const char *what, struct error *err)
{
    return error_set(err, ERROR_INVALID, "Syntax Error: %s (line %u, column %zu)", what, lexer->line,
                     lexer->offset - lexer->line_start + 1);
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const struct gql_lexer *lexer, size_t ahead)
{
    size_t at = lexer->offset + ahead;
    return at < lexer->source.len ? lexer->source.at[at] : '\0';
}

static void skip_ignored(struct gql_lexer *lexer)
{
    static const char bom[] = "\xef\xbb\xbf";
    while (lexer->offset < lexer->source.len) {
        char c = lexer->source.at[lexer->offset];
        if (c == bom[0] && str_starts(str_from(lexer->source, lexer->offset), STR(bom))) {
            lexer->offset += 3;
        } else if (c == '#') {
            while (lexer->offset < lexer->source.len && peek(lexer, 0) != '\n' && peek(lexer, 0) != '\r')
                lexer->offset++;
        } else if (c == '\n' || (c == '\r' && peek(lexer, 1) != '\n')) {
            lexer->offset++;
            lexer->line++;
            lexer->line_start = lexer->offset;
        } else if (c == ' ' || c == '\t' || c == ',' || c == '\r') {
            lexer->offset++;
        } else {
            return;
        }
    }
}

static void take(struct gql_lexer *lexer, enum gql_token_kind kind, size_t len)
{
    lexer->token.kind = kind;
    lexer->token.text = str_of(lexer->source.at + lexer->offset, len);
    lexer->offset += len;
}

static enum error_code lex_number(struct gql_lexer *lexer, struct error *err)
{
    size_t len = peek(lexer, 0) == '-';
    if (!is_digit(peek(lexer, len))) return syntax_error(lexer, "a number without digits", err);
    if (peek(lexer, len) == '0' && is_digit(peek(lexer, len + 1)))
        return syntax_error(lexer, "a number with a leading zero", err);
    while (is_digit(peek(lexer, len)))
        len++;
    bool is_float = false;
    if (peek(lexer, len) == '.') {
        is_float = true;
        if (!is_digit(peek(lexer, ++len)))
            return syntax_error(lexer, "a number without digits after its decimal point", err);
        while (is_digit(peek(lexer, len)))
            len++;
    }
    if (peek(lexer, len) == 'e' || peek(lexer, len) == 'E') {
        is_float = true;
        len++;
        if (peek(lexer, len) == '+' || peek(lexer, len) == '-') len++;
        if (!is_digit(peek(lexer, len))) return syntax_error(lexer, "a number without digits in its exponent", err);
        while (is_digit(peek(lexer, len)))
            len++;
    }
    if (is_name_start(peek(lexer, len)) || peek(lexer, len) == '.')
        return syntax_error(lexer, "a number that runs into a name", err);
    take(lexer, is_float ? GQL_TOKEN_FLOAT : GQL_TOKEN_INT, len);
    return ERROR_NONE;
}

static enum error_code lex_block_string(struct gql_lexer *lexer, struct error *err)
{
    size_t start = lexer->offset + 3;
    lexer->offset = start;
    while (lexer->offset < lexer->source.len) {
        struct str rest = str_from(lexer->source, lexer->offset);
        if (str_starts(rest, STR("\\\"\"\""))) {
            lexer->offset += 4;
            continue;
        }
        if (str_starts(rest, STR("\"\"\""))) {
            lexer->token.kind = GQL_TOKEN_BLOCK_STRING;
            lexer->token.text = str_of(lexer->source.at + start, lexer->offset - start);
            lexer->offset += 3;
            return ERROR_NONE;
        }
        if (rest.at[0] == '\n' || (rest.at[0] == '\r' && peek(lexer, 1) != '\n')) {
            lexer->line++;
            lexer->line_start = lexer->offset + 1;
        }
        lexer->offset++;
    }
    return syntax_error(lexer, "Unterminated string.", err);
}

static enum error_code lex_string(struct gql_lexer *lexer, struct error *err)
{
    if (peek(lexer, 1) == '"' && peek(lexer, 2) == '"') return lex_block_string(lexer, err);
    size_t len = 1;
    for (; lexer->offset + len < lexer->source.len; len++) {
        char c = peek(lexer, len);
        if (c == '"') {
            lexer->token.kind = GQL_TOKEN_STRING;
            lexer->token.text = str_of(lexer->source.at + lexer->offset + 1, len - 1);
            lexer->offset += len + 1;
            return ERROR_NONE;
        }
        if (c == '\n' || c == '\r') break;
        if (c == '\\') len++;
    }
    return syntax_error(lexer, "Unterminated string.", err);
}

enum error_code gql_lexer_next(struct gql_lexer *lexer, struct error *err)
{
    skip_ignored(lexer);
    lexer->token.at = (struct gql_location){lexer->line, (unsigned)(lexer->offset - lexer->line_start + 1)};
    if (lexer->offset >= lexer->source.len) {
        lexer->token.kind = GQL_TOKEN_END;
        lexer->token.text = STR("<EOF>");
        return ERROR_NONE;
    }
    if (++lexer->tokens > lexer->tokens_max)
        return error_set(err, ERROR_TOO_LARGE, "Syntax Error: Document contains more than %zu tokens. Parsing aborted.",
                         lexer->tokens_max);
    char c = peek(lexer, 0);
    if (is_name_start(c)) {
        size_t len = 1;
        while (is_name_start(peek(lexer, len)) || is_digit(peek(lexer, len)))
            len++;
        take(lexer, GQL_TOKEN_NAME, len);
        return ERROR_NONE;
    }
    if (is_digit(c) || c == '-') return lex_number(lexer, err);
    if (c == '"') return lex_string(lexer, err);
    if (c != '\0' && strchr("!$&():=@[]{|}", c)) {
        take(lexer, GQL_TOKEN_PUNCTUATOR, 1);
        return ERROR_NONE;
    }
    if (c == '.' && peek(lexer, 1) == '.' && peek(lexer, 2) == '.') {
        take(lexer, GQL_TOKEN_PUNCTUATOR, 3);
        return ERROR_NONE;
    }
    return syntax_error(lexer, "Unexpected character.", err);
}

enum error_code gql_lexer_init(struct gql_lexer *lexer, struct str source, size_t tokens_max, struct error *err)
{
    *lexer = (struct gql_lexer){.source = source, .line = 1, .tokens_max = tokens_max};
    if (!str_is_utf8(source)) return error_set(err, ERROR_INVALID, "Syntax Error: the document is not UTF-8 text");
    return gql_lexer_next(lexer, err);
}

// ---- string values -------------------------------------------------------------------------------------------------

static size_t put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

// Four hex digits at text[*i].
static bool read_hex4(struct str text, size_t *i, uint32_t *out)
{
    uint8_t bytes[2];
    if (*i + 4 > text.len || parse_hex(str_of(text.at + *i, 4), bytes, 2, NULL) != ERROR_NONE) return false;
    *i += 4;
    *out = (uint32_t)bytes[0] << 8 | bytes[1];
    return true;
}

// text[*i] is behind "\u".
static bool read_unicode(struct str text, size_t *i, uint32_t *out)
{
    uint32_t high, low;
    if (!read_hex4(text, i, &high) || high == 0) return false;
    if (high < 0xd800 || high > 0xdfff) {
        *out = high;
        return true;
    }
    if (high > 0xdbff || !str_starts(str_from(text, *i), STR("\\u"))) return false;
    *i += 2;
    if (!read_hex4(text, i, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *out = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static enum error_code unescape(const struct gql_token *token, struct arena *arena, struct str *out, struct error *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    struct str text = token->text;
    char *room = arena_alloc(arena, text.len + 4);
    size_t used = 0;
    for (size_t i = 0; i < text.len;) {
        char c = text.at[i++];
        if (c != '\\') {
            room[used++] = c;
            continue;
        }
        char escape = i < text.len ? text.at[i++] : '\0';
        const char *known = escape ? strchr(from, escape) : NULL;
        uint32_t point;
        if (known)
            room[used++] = to[known - from];
        else if (escape == 'u' && read_unicode(text, &i, &point))
            used += put_utf8(room + used, point);
        else
            return error_set(err, ERROR_INVALID,
                             "Syntax Error: Invalid character escape sequence in a string. (line %u, column %u)",
                             token->at.line, token->at.column);
    }
    *out = str_of(room, used);
    return ERROR_NONE;
}

static size_t indentation(struct str line)
{
    size_t n = 0;
    while (n < line.len && (line.at[n] == ' ' || line.at[n] == '\t'))
        n++;
    return n;
}

static bool next_line(struct str *rest, struct str *out)
{
    if (!rest->at) return false;
    size_t len = 0;
    while (len < rest->len && rest->at[len] != '\n' && rest->at[len] != '\r')
        len++;
    *out = str_first(*rest, len);
    if (len == rest->len)
        rest->at = NULL;
    else
        *rest = str_from(*rest, len + (str_starts(str_from(*rest, len), STR("\r\n")) ? 2 : 1));
    return true;
}

// Specification section 2.9.4, BlockStringValue().
static struct str unindent(struct str text, struct arena *arena)
{
    size_t common = SIZE_MAX, number = 0, first = SIZE_MAX, last = 0;
    struct str rest = text, line;
    for (; next_line(&rest, &line); number++) {
        size_t indent = indentation(line);
        if (indent == line.len) continue;
        if (number > 0 && indent < common) common = indent;
        if (first == SIZE_MAX) first = number;
        last = number;
    }
    char *room = arena_alloc(arena, text.len + 1);
    size_t used = 0;
    rest = text;
    for (number = 0; next_line(&rest, &line); number++) {
        if (number < first || number > last) continue;
        if (number > 0 && common != SIZE_MAX) line = str_from(line, common);
        if (used || number > first) room[used++] = '\n';
        for (size_t i = 0; i < line.len; i++) {
            if (str_starts(str_from(line, i), STR("\\\"\"\""))) i++;
            room[used++] = line.at[i];
        }
    }
    return str_of(room, used);
}

enum error_code gql_token_string(const struct gql_token *token, struct arena *arena, struct str *out, struct error *err)
{
    if (token->kind == GQL_TOKEN_STRING) return unescape(token, arena, out, err);
    *out = unindent(token->text, arena);
    return ERROR_NONE;
}
