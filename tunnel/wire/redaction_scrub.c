#include "tunnel/wire/redaction_scrub.h"

#include <stdbool.h>
#include <string.h>

static const char mask[] = "***";

// ---- bytes ---------------------------------------------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_value_end(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ';' || c == '&' || c == '"' ||
           c == '\'' || c == '\\' || c == ')' || c == '}' || c == ']' || c == '<' || c == '>' || c == '`';
}

static bool is_token_byte(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || c == '+' || c == '/' || c == '=';
}

static bool is_name_byte(char c)
{
    return is_alnum(c) || c == '-' || c == '_';
}

static bool is_url_byte(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f && !strchr("\"'`<>\\", c);
}

static size_t run_of(struct str s, bool (*is_in)(char))
{
    size_t len = 0;
    while (len < s.len && is_in(s.at[len]))
        len++;
    return len;
}

static size_t find(struct str s, struct str what)
{
    const char *at = s.len ? memmem(s.at, s.len, what.at, what.len) : NULL;
    return at ? (size_t)(at - s.at) : s.len;
}

// ---- URLs ----------------------------------------------------------------------------------------------------------

// Behind "://", before the last @ of a URL: is this a user with a password, or a path that has an @
// in it? A password may have any byte, also a slash.
static bool is_user(struct str before, struct str behind)
{
    size_t colon = find(before, STR(":")), slash = find(before, STR("/"));
    if (slash == before.len) return true;
    if (colon < slash) {
        // host:port/path@... has digits only.
        for (size_t i = colon + 1; i < slash; i++)
            if (!is_digit(before.at[i])) return true;
        if (slash == colon + 1) return true;
    }
    // A token with a slash, without a colon: then a host is what follows.
    size_t host = 0;
    while (host < behind.len && (is_alnum(behind.at[host]) || behind.at[host] == '-' || behind.at[host] == '.'))
        host++;
    return find(str_first(behind, host), STR(".")) < host;
}

static bool is_open_parameter(struct str name)
{
    static const char *const open[] = {"ref",   "version", "timeout", "timeoutSeconds", "limit",          "watch",
                                       "force", "dryRun",  "depth",   "submodules",     "resourceVersion"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (str_eq(name, str_c(open[i]))) return true;
    return false;
}

// Behind the question mark: names stay, values only of parameters that hold no secrets.
static void write_query(struct str query, struct strbuf *out)
{
    for (bool is_first = true;; is_first = false) {
        size_t end = 0;
        while (end < query.len && query.at[end] != '&' && query.at[end] != ';')
            end++;
        struct str pair = str_first(query, end), name;
        if (!is_first) strbuf_add_byte(out, '&');
        if (str_cut(&pair, '=', &name)) {
            strbuf_add_str(out, name);
            strbuf_add_byte(out, '=');
            if (is_open_parameter(name))
                strbuf_add_str(out, pair);
            else
                strbuf_add_c(out, mask);
        } else {
            strbuf_add_c(out, name.len ? mask : "");
        }
        if (end == query.len) return;
        query = str_from(query, end + 1);
    }
}

// Hosts whose paths are credentials.
static bool is_secret_host(struct str host)
{
    static const char *const hosts[] = {"hooks.slack.com", "hooks.slack-gov.com", "discord.com",
                                        "discordapp.com",  "webhook.office.com",  "outlook.office.com"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct str one = str_c(hosts[i]);
        if (str_eq_nocase(host, one)) return true;
        if (host.len > one.len && host.at[host.len - one.len - 1] == '.' &&
            str_eq_nocase(str_from(host, host.len - one.len), one))
            return true;
    }
    return false;
}

// ://[user[:password]@]host[:port][/path][?query]
static size_t url_rule(struct str s, struct strbuf *out)
{
    if (!str_starts(s, STR("://"))) return 0;
    struct str rest = str_from(s, 3);
    rest.len = run_of(rest, is_url_byte);
    size_t used = 3 + rest.len;
    strbuf_add_c(out, "://");
    for (size_t i = rest.len; i > 0; i--) {
        if (rest.at[i - 1] != '@') continue;
        if (is_user(str_first(rest, i - 1), str_from(rest, i))) {
            strbuf_addf(out, "%s@", mask);
            rest = str_from(rest, i);
            break;
        }
    }
    size_t question = find(rest, STR("?"));
    struct str path = str_first(rest, question);
    size_t host = find(path, STR("/"));
    if (is_secret_host(str_first(path, find(str_first(path, host), STR(":"))))) {
        strbuf_add_str(out, str_first(path, host));
        strbuf_add_c(out, host < path.len ? "/***" : "");
    } else {
        strbuf_add_str(out, path);
    }
    if (question < rest.len) {
        strbuf_add_byte(out, '?');
        write_query(str_from(rest, question + 1), out);
    }
    return used;
}

// ---- tokens --------------------------------------------------------------------------------------------------------

static size_t scheme_rule(struct str s, struct strbuf *out)
{
    if ((*s.at | 0x20) != 'b') return 0;
    size_t word = str_starts_nocase(s, STR("bearer ")) ? 7 : str_starts_nocase(s, STR("basic ")) ? 6 : 0;
    if (!word) return 0;
    size_t len = run_of(str_from(s, word), is_token_byte);
    if (len < 8) return 0;
    strbuf_add(out, s.at, word);
    strbuf_add_c(out, mask);
    return word + len;
}

// How the tokens of known makers begin, and how many bytes follow at least.
static const struct {
    const char *begin;
    size_t more;
} makers[] = {
    {"eyJ", 17},         {"AKIA", 12},
    {"ASIA", 12},        {"AROA", 12},
    {"AIza", 30},        {"ghp_", 16},
    {"gho_", 16},        {"ghu_", 16},
    {"ghs_", 16},        {"ghr_", 16},
    {"github_pat_", 16}, {"glpat-", 12},
    {"gldt-", 12},       {"glrt-", 12},
    {"xoxb-", 8},        {"xoxp-", 8},
    {"xoxa-", 8},        {"xoxr-", 8},
    {"xoxs-", 8},        {"xoxe-", 8},
    {"xoxe.", 8},        {"xapp-", 8},
    {"npm_", 20},        {"pypi-", 20},
    {"dckr_pat_", 16},   {"hvs.", 16},
    {"hvb.", 16},        {"sk_live_", 12},
    {"rk_live_", 12},    {"SG.", 20},
    {"dop_v1_", 20},     {"shpat_", 20},
    {"ya29.", 16},       {"AGE-SECRET-KEY-", 16},
};

static size_t maker_rule(struct str s, struct strbuf *out)
{
    if (!strchr("eAgxnpdhsrSy", *s.at)) return 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (*makers[i].begin != *s.at) continue;
        struct str begin = str_c(makers[i].begin);
        if (!str_starts(s, begin)) continue;
        size_t len = run_of(s, is_token_byte);
        if (len < begin.len + makers[i].more) continue;
        strbuf_add_c(out, mask);
        return len;
    }
    return 0;
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

// ---- quotations ----------------------------------------------------------------------------------------------------

// A quoted string with its quotes, plain or escaped (\"...\"); 0: none begins here.
static size_t quoted_len(struct str s)
{
    size_t i = 0;
    bool is_escaped = s.len > 1 && s.at[0] == '\\' && (s.at[1] == '"' || s.at[1] == '\'');
    if (is_escaped) i = 1;
    if (i >= s.len || (s.at[i] != '"' && s.at[i] != '\'' && s.at[i] != '`')) return 0;
    char quote = s.at[i];
    for (i++; i < s.len; i++) {
        if (s.at[i] == '\\' && i + 1 < s.len) {
            if (is_escaped && s.at[i + 1] == quote) return i + 2;
            i++;
        } else if (s.at[i] == quote) {
            return i + 1;
        }
    }
    return s.len;
}

// The API server, and those who decode for it, quote what they refuse: Invalid value: "...", cannot
// unmarshal ..., illegal base64 data ..., unable to parse quantity's suffix: "..."
static size_t refused_rule(struct str s, struct strbuf *out)
{
    static const char *const starts[] = {"Invalid value: ", "Unsupported value: ", "Duplicate value: ",
                                         "Invalid value ",  "invalid value: ",     "invalid value "};
    size_t start = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts && !start; i++)
        if (str_starts(s, str_c(starts[i]))) start = strlen(starts[i]);
    if (!start) return 0;
    size_t quoted = quoted_len(str_from(s, start));
    bool has_colon = s.at[start - 2] == ':';
    if (!quoted && !has_colon) return 0;
    strbuf_add(out, s.at, start);
    strbuf_add_c(out, mask);
    // A map or a struct: up to the reason behind it.
    return start + (quoted ? quoted : find(str_from(s, start), STR(": ")));
}

// A manifest quoted in a text: "data": {...} or "stringData": {...}, plainly or escaped, as JSON or
// as Go writes maps. The rest of the text goes.
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

static size_t go_map_rule(struct str s, struct strbuf *out)
{
    if (*s.at != 'd' && *s.at != 's' && *s.at != 'D') return 0;
    if (!str_starts(s, STR("data:map[")) && !str_starts(s, STR("stringData:")) && !str_starts(s, STR("Data:map[")))
        return 0;
    strbuf_add_c(out, mask);
    return s.len;
}

// ---- names and values ----------------------------------------------------------------------------------------------

static bool is_secret_name(struct str name)
{
    static const char *const ends[] = {
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "apikey",
        "api_key",
        "api-key",
        "access_key",
        "access-key",
        "accesskey",
        "secret_key",
        "secret-key",
        "secretkey",
        "private_key",
        "private-key",
        "privatekey",
        "credential",
        "credentials",
        "authorization",
        "signature",
        "sig",
        "accesskeyid",
        "access_key_id",
        "cookie",
        "pass",
        "auth",
        "signing_key",
        "signing-key",
        "encryption_key",
        "encryption-key",
        "connectionstring",
        "connection_string",
        "dsn",
        "pat",
        "secrets",
        "passwords",
        "tokens",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct str end = str_c(ends[i]);
        if (name.len < end.len || !str_eq_nocase(str_from(name, name.len - end.len), end)) continue;
        // Short ones are words of their own: "compass" is no password.
        if (end.len > 4 || name.len == end.len) return true;
        char before = name.at[name.len - end.len - 1];
        if (before == '-' || before == '_' ||
            (name.at[name.len - end.len] >= 'A' && name.at[name.len - end.len] <= 'Z'))
            return true;
    }
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

// How much of s is one value: a quoted one to its quote, else to a byte that ends values; "bearer
// x" is one.
static size_t value_len(struct str s)
{
    size_t quoted = quoted_len(s);
    if (quoted) return quoted;
    size_t end = 0;
    if (str_starts_nocase(s, STR("bearer ")) || str_starts_nocase(s, STR("basic "))) end = find(s, STR(" ")) + 1;
    while (end < s.len && !is_value_end(s.at[end]))
        end++;
    return end;
}

// password=..., "token": "..."; s starts at a word.
static size_t assignment_rule(struct str s, struct strbuf *out)
{
    size_t name = run_of(s, is_name_byte);
    size_t i = name + run_of_quotes(str_from(s, name));
    if (name < 3 || i >= s.len || (s.at[i] != '=' && s.at[i] != ':')) return 0;
    if (!is_secret_name(str_first(s, name))) return 0;
    i++;
    if (i < s.len && (s.at[i] == '=' || s.at[i] == '>')) i++;
    if (i < s.len && s.at[i] == '/') return 0; // an address, as in token://
    size_t spaces = 0;
    while (i + spaces < s.len && s.at[i + spaces] == ' ')
        spaces++;
    struct str value = str_from(s, i + spaces);
    size_t quoted = quoted_len(value);
    if (quoted > 2) {
        size_t quote = *value.at == '\\' ? 2 : 1;
        strbuf_add(out, s.at, i + spaces + quote);
        strbuf_add_c(out, mask);
        bool is_closed = quoted >= 2 * quote && value.at[quoted - 1] == value.at[quote - 1];
        if (is_closed) strbuf_add(out, value.at + quoted - quote, quote);
        return i + spaces + quoted;
    }
    i += run_of_quotes(str_from(s, i));
    size_t len = value_len(str_from(s, i));
    if (!len) return 0;
    strbuf_add(out, s.at, i);
    strbuf_add_c(out, mask);
    return i + len;
}

// --password x, --token=x; --set a=b,c=d and its kin; s starts at the dashes.
static size_t option_rule(struct str s, struct strbuf *out)
{
    static const char *const sets[] = {"set", "set-string", "set-file", "set-json", "set-literal", "from-literal"};
    size_t dashes = 0;
    while (dashes < s.len && s.at[dashes] == '-')
        dashes++;
    struct str name = str_from(s, dashes);
    name.len = run_of(name, is_name_byte);
    if (dashes > 2 || !name.len) return 0;
    bool is_set = false;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        is_set = is_set || str_eq(name, str_c(sets[i]));
    if (!is_set && !is_secret_name(name)) return 0;
    size_t i = dashes + name.len;
    // Also as a list prints it: ["--password", "x"], [--password,x]
    size_t gap = 0;
    while (i + gap < s.len && gap < 8 && strchr(" =\"',\\", s.at[i + gap]))
        gap++;
    if (!gap || i + gap >= s.len) return 0;
    i += gap;
    struct str value = str_from(s, i);
    size_t quoted_gap = strchr("\"'", s.at[i - 1]) != NULL && s.at[i - 1] ? 1 : 0, len = 0;
    if (quoted_gap) {
        // From the quote that the gap ended with to its partner.
        while (len < value.len && value.at[len] != s.at[i - 1])
            len += value.at[len] == '\\' && len + 1 < value.len && value.at[len + 1] != s.at[i - 1] ? 2 : 1;
        if (len > value.len) len = value.len;
    } else if (is_set) {
        // name=value,name=value with what quotes there are, up to white space.
        while (len < value.len && value.at[len] != ' ' && value.at[len] != '\n' && value.at[len] != '\t') {
            size_t quoted = quoted_len(str_from(value, len));
            len += quoted ? quoted : 1;
        }
    } else {
        while (len < value.len && value.at[len] != ' ' && value.at[len] != '\n' && value.at[len] != '\t' &&
               value.at[len] != ']')
            len++;
    }
    if (!len) return 0;
    strbuf_add(out, s.at, i);
    if (is_set) {
        size_t equals = find(str_first(value, len), STR("="));
        if (equals < len) strbuf_add_str(out, str_first(value, equals + 1));
    }
    strbuf_add_c(out, mask);
    return i + len;
}

// ---- the whole -----------------------------------------------------------------------------------------------------

// Each rule looks at the start of s; when it applies it writes what may stay and returns how much
// was read, else 0.
static size_t apply_rules(struct str s, bool in_word, struct strbuf *out)
{
    size_t used = 0;
    switch (*s.at) {
    case ':': return url_rule(s, out);
    case '-': used = private_key_rule(s, out); return used || in_word ? used : option_rule(s, out);
    case 'I':
    case 'U':
    case 'D':
    case 'i': used = refused_rule(s, out); break;
    case '"':
    case '\\': return manifest_rule(s, out);
    default: break;
    }
    if (used || in_word || !is_name_byte(*s.at)) return used;
    used = scheme_rule(s, out);
    if (!used) used = maker_rule(s, out);
    if (!used) used = go_map_rule(s, out);
    return used ? used : assignment_rule(s, out);
}

bool redaction_scrub_if(struct str text, struct strbuf *out)
{
    struct strbuf fresh; // what a rule makes of what it takes
    bool in_word = false, is_changed = false;
    size_t kept = 0; // from here on nothing was added to out
    strbuf_init(&fresh, text.len * 2 + 64);
    for (size_t i = 0; i < text.len;) {
        char c = text.at[i];
        bool may_apply = c == ':' || c == '-' || c == '"' || c == '\\' || (!in_word && is_name_byte(c)) || c == 'I';
        size_t used = may_apply ? apply_rules(str_from(text, i), in_word, &fresh) : 0;
        if (used) {
            bool is_same = str_eq(strbuf_str(&fresh), str_first(str_from(text, i), used));
            if (!is_same) {
                if (i > kept) strbuf_add(out, text.at + kept, i - kept);
                strbuf_add_str(out, strbuf_str(&fresh));
                kept = i + used;
                is_changed = true;
            }
            strbuf_clear(&fresh);
            in_word = is_name_byte(text.at[i + used - 1]);
            i += used;
            continue;
        }
        in_word = is_name_byte(c);
        i++;
    }
    if (is_changed && text.len > kept) strbuf_add(out, text.at + kept, text.len - kept);
    strbuf_finish(&fresh);
    return is_changed;
}

void redaction_scrub(struct str text, struct strbuf *out)
{
    if (!redaction_scrub_if(text, out) && text.len) strbuf_add_str(out, text);
}
