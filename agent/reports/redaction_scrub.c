// The text half of redaction: credentials inside sentences and addresses.
#include <ctype.h>

#include "agent/reports/redaction.h"
#include "base/json.h"

static const char mask[] = "***";

static bool is_value_end(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ';' || c == '&' || c == '"' ||
           c == '\'' || c == '\\' || c == ')' || c == '}' || c == ']' || c == '<' || c == '>' || c == '`';
}

static bool is_token_byte(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || c == '~' || c == '+' || c == '/' ||
           c == '=';
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static size_t run_of(struct str s, bool (*is_in)(char))
{
    size_t len = 0;
    while (len < s.len && is_in(s.at[len]))
        len++;
    return len;
}

// Each rule looks at the start of s; when it applies it writes what may stay and returns how much was read, else 0.

// scheme://user:password@host
static size_t url_rule(struct str s, struct strbuf *out)
{
    if (!str_starts(s, STR("://"))) return 0;
    size_t end = 3, at_sign = 0;
    while (end < s.len && s.at[end] != '/' && s.at[end] != '?' && s.at[end] != '#' && s.at[end] != ' ' &&
           s.at[end] != '"' && s.at[end] != '\n') {
        if (s.at[end] == '@') at_sign = end;
        end++;
    }
    if (!at_sign) return 0;
    strbuf_addf(out, "://%s@", mask);
    return at_sign + 1;
}

static size_t scheme_rule(struct str s, struct strbuf *out)
{
    size_t word = str_starts_nocase(s, STR("bearer ")) ? 7 : str_starts_nocase(s, STR("basic ")) ? 6 : 0;
    if (!word) return 0;
    size_t len = run_of(str_from(s, word), is_token_byte);
    if (len < 8) return 0;
    strbuf_add(out, s.at, word);
    strbuf_add_c(out, mask);
    return word + len;
}

static size_t jwt_rule(struct str s, struct strbuf *out)
{
    if (!str_starts(s, STR("eyJ"))) return 0;
    size_t len = run_of(s, is_token_byte);
    if (len < 20) return 0;
    strbuf_add_c(out, mask);
    return len;
}

static size_t find(struct str s, struct str what)
{
    const char *at = s.len ? memmem(s.at, s.len, what.at, what.len) : NULL;
    return at ? (size_t)(at - s.at) : s.len;
}

// -----BEGIN ... PRIVATE KEY----- to its end, or to the end of the text.
static size_t private_key_rule(struct str s, struct strbuf *out)
{
    if (!str_starts(s, STR("-----BEGIN "))) return 0;
    if (find(str_first(s, 64), STR("PRIVATE KEY")) == str_first(s, 64).len) return 0;
    strbuf_add_c(out, mask);
    size_t end = find(s, STR("-----END "));
    if (end == s.len) return s.len;
    size_t close = find(str_from(s, end + 9), STR("-----"));
    size_t used = end + 9 + close + 5;
    return used < s.len ? used : s.len;
}

// The API server quotes what it refuses: Invalid value: "...".
static size_t invalid_value_rule(struct str s, struct strbuf *out)
{
    static const struct str start = {"Invalid value: ", 15};
    if (!str_starts(s, start)) return 0;
    strbuf_add_str(out, start);
    strbuf_add_c(out, mask);
    size_t i = start.len;
    if (i < s.len && s.at[i] == '"') {
        for (i++; i < s.len && s.at[i] != '"'; i++)
            if (s.at[i] == '\\') i++;
        return i < s.len ? i + 1 : s.len;
    }
    // A map or a struct: up to the reason behind it.
    size_t end = find(str_from(s, i), STR(": "));
    return i + end;
}

// A manifest quoted in a text: "data": {...} or "stringData": {...}, plainly or escaped. The rest of the text goes.
static size_t manifest_rule(struct str s, struct strbuf *out)
{
    struct str rest = s;
    if (str_starts(rest, STR("\\"))) rest = str_from(rest, 1);
    if (!str_starts(rest, STR("\"data\\\"")) && !str_starts(rest, STR("\"data\":")) &&
        !str_starts(rest, STR("\"data\" :")) && !str_starts(rest, STR("\"stringData")))
        return 0;
    strbuf_add_c(out, mask);
    return s.len;
}

static bool is_secret_name(struct str name)
{
    static const struct str ends[] = {
        {"password", 8},    {"passwd", 6},       {"passphrase", 10},    {"pwd", 3},          {"secret", 6},
        {"token", 5},       {"apikey", 6},       {"api_key", 7},        {"api-key", 7},      {"access_key", 10},
        {"accesskey", 9},   {"secret_key", 10},  {"secretkey", 9},      {"private_key", 11}, {"privatekey", 10},
        {"credential", 10}, {"credentials", 11}, {"authorization", 13},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (name.len >= ends[i].len && str_eq_nocase(str_from(name, name.len - ends[i].len), ends[i])) return true;
    return false;
}

// Quotes (plain or escaped) and spaces around a separator.
static size_t run_of_quotes(struct str s)
{
    size_t len = 0;
    while (len < s.len && (s.at[len] == '"' || s.at[len] == '\'' || s.at[len] == '\\' || s.at[len] == ' '))
        len++;
    return len;
}

// password=..., "token": "...", --api-key ... ; s starts at a word.
static size_t assignment_rule(struct str s, struct strbuf *out)
{
    size_t name = run_of(s, is_name_byte);
    if (name < 3 || !is_secret_name(str_first(s, name))) return 0;
    size_t i = name + run_of_quotes(str_from(s, name));
    if (i >= s.len || (s.at[i] != '=' && s.at[i] != ':')) return 0;
    i++;
    if (i < s.len && s.at[i] == '/') return 0; // an address, as in token://
    i += run_of_quotes(str_from(s, i));
    size_t end = i;
    bool scheme = str_starts_nocase(str_from(s, i), STR("bearer ")) || str_starts_nocase(str_from(s, i), STR("basic "));
    if (scheme) end = i + find(str_from(s, i), STR(" ")) + 1;
    while (end < s.len && !is_value_end(s.at[end]))
        end++;
    if (end == i) return 0;
    strbuf_add(out, s.at, i);
    strbuf_add_c(out, mask);
    return end;
}

void redaction_scrub(struct str text, struct strbuf *out)
{
    bool in_word = false;
    for (size_t i = 0; i < text.len;) {
        struct str rest = str_from(text, i);
        size_t used = 0;
        switch (*rest.at) {
        case ':': used = url_rule(rest, out); break;
        case '-': used = private_key_rule(rest, out); break;
        case 'I': used = invalid_value_rule(rest, out); break;
        case '"':
        case '\\': used = manifest_rule(rest, out); break;
        default: break;
        }
        if (!used && !in_word && is_name_byte(*rest.at)) {
            used = scheme_rule(rest, out);
            if (!used) used = jwt_rule(rest, out);
            if (!used) used = assignment_rule(rest, out);
        }
        if (!used) {
            strbuf_add_byte(out, *rest.at);
            used = 1;
        }
        in_word = is_name_byte(text.at[i + used - 1]);
        i += used;
    }
}
