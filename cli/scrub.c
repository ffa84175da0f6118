#include "cli/scrub.h"

#include <ctype.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 64 * 1024 * 1024 };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// The words that announce a secret. "key" alone is too common in texts, but not in names.
static const char *const words[] = {"password",   "passwd",     "pwd",           "secret",    "token",
                                    "apikey",     "api_key",    "api-key",       "accesskey", "access_key",
                                    "access-key", "privatekey", "authorization", "credential"};

// the length of the announcing word at the start of text; 0: none.
static size_t word_at(struct str text)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_starts_nocase(text, str_c(words[i]))) return strlen(words[i]);
    }
    return 0;
}

bool scrub_is_secret_name(struct str name)
{
    static const char *const ends[] = {"key", "url"};
    for (size_t i = 0; i < name.len; i++) {
        if (word_at(str_from(name, i))) return true;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct str end = str_c(ends[i]);
        if (name.len >= end.len && str_eq_nocase(str_from(name, name.len - end.len), end)) return true;
    }
    return false;
}

static size_t spaces_at(struct str text)
{
    size_t len = 0;
    while (len < text.len &&
           (text.at[len] == ' ' || text.at[len] == '\t' || text.at[len] == '"' || text.at[len] == '\''))
        len++;
    return len;
}

static size_t value_len(struct str text)
{
    size_t len = 0;
    while (len < text.len && !isspace((unsigned char)text.at[len]) && !strchr("\"',;&<>)}]", text.at[len]))
        len++;
    return len;
}

// "token: x", "Authorization: Bearer x": how much is kept in front of the value, and its length.
static bool announced(struct str text, size_t *out_kept, size_t *out_len)
{
    size_t at = word_at(text);
    if (!at) return false;
    while (at < text.len && is_word(text.at[at])) // "tokens", "password_hash"
        at++;
    at += spaces_at(str_from(text, at));
    if (at >= text.len || (text.at[at] != ':' && text.at[at] != '=')) return false;
    at++;
    at += spaces_at(str_from(text, at));
    struct str value = str_from(text, at);
    size_t len = value_len(value);
    bool has_scheme = str_starts_nocase(value, STR("bearer ")) || str_starts_nocase(value, STR("basic "));
    if (has_scheme) len += 1 + value_len(str_from(value, len + 1));
    *out_kept = at;
    *out_len = len;
    return len > 0;
}

// "://user:password@": the length of what stands between "://" and "@".
static size_t user_at(struct str text)
{
    if (!str_starts(text, STR("://"))) return 0;
    for (size_t i = 3; i < text.len; i++) {
        if (text.at[i] == '@') return i - 3;
        if (isspace((unsigned char)text.at[i]) || strchr("/?#\"'<>", text.at[i])) return 0;
    }
    return 0;
}

// A private key in PEM, to its end or that of the text.
static size_t pem_at(struct str text)
{
    if (!str_starts(text, STR("-----BEGIN ")) || !memmem(text.at, text.len < 80 ? text.len : 80, "PRIVATE KEY", 11))
        return 0;
    const char *end = memmem(text.at, text.len, "-----END ", 9);
    const char *line = end ? memmem(end + 9, text.len - (size_t)(end + 9 - text.at), "-----", 5) : NULL;
    return line ? (size_t)(line - text.at) + 5 : text.len;
}

// A JSON Web Token: two or more parts of base64url, the first of which is a JSON object.
static size_t jwt_at(struct str text)
{
    size_t len = 0, dots = 0;
    if (!str_starts(text, STR("eyJ"))) return 0;
    while (len < text.len && (is_word(text.at[len]) || text.at[len] == '-' || text.at[len] == '.'))
        dots += text.at[len++] == '.';
    return dots ? len : 0;
}

void scrub_text(struct str text, struct str known, struct strbuf *out)
{
    while (text.len) {
        size_t kept = 0, len = 0;
        if (known.len && str_starts(text, known)) {
            len = known.len;
        } else if ((len = pem_at(text)) || (len = jwt_at(text)) || announced(text, &kept, &len)) {
            // kept and len are set.
        } else if ((len = user_at(text))) {
            kept = 3;
        }
        if (!len) {
            strbuf_add_byte(out, text.at[0]);
            text = str_from(text, 1);
            continue;
        }
        strbuf_add(out, text.at, kept);
        strbuf_add_c(out, SCRUBBED);
        text = str_from(text, kept + len);
    }
}

static json_t *scrub_string(const json_t *string, struct str known)
{
    struct strbuf text;
    strbuf_init(&text, TEXT_BYTES_MAX);
    scrub_text(str_of(json_string_value(string), json_string_length(string)), known, &text);
    json_t *scrubbed = json_stringn(text.at ? text.at : "", text.len);
    strbuf_finish(&text);
    return scrubbed ? scrubbed : json_string(SCRUBBED);
}

json_t *scrub_json(const json_t *tree, struct str known)
{
    const char *key;
    json_t *each;
    size_t i;
    if (json_is_string(tree)) return scrub_string(tree, known);
    if (json_is_array(tree)) {
        json_t *array = json_array();
        json_array_foreach(tree, i, each) json_array_append_new(array, scrub_json(each, known));
        return array;
    }
    if (!json_is_object(tree)) return json_deep_copy(tree);
    json_t *object = json_object();
    json_object_foreach((json_t *)tree, key, each)
    {
        bool is_secret = json_is_string(each) && json_string_length(each) && scrub_is_secret_name(str_c(key));
        json_object_set_new(object, key, is_secret ? json_string(SCRUBBED) : scrub_json(each, known));
    }
    return object;
}
