#include "api/access/session_cookie.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define PURPOSE_SESSION "culvert browser session"
#define PURPOSE_LINK    "culvert sign-in link"
#define PURPOSE_CSRF    "culvert csrf token"

struct str session_cookie_named(struct str field, struct str wanted)
{
    struct str rest = field, pair, name, found = STR_EMPTY;
    size_t times = 0;
    while (rest.len) {
        str_cut(&rest, ';', &pair);
        if (!str_cut(&pair, '=', &name) || !str_eq(str_trim(name), wanted)) continue;
        found = str_trim(pair);
        times++;
    }
    return times == 1 ? found : STR_EMPTY;
}

struct str session_cookie_find(struct str field)
{
    return session_cookie_named(field, STR(SESSION_COOKIE_NAME));
}

// token: as the secret hashes, not yet of a purpose.
static void bind(const struct token *token, struct session_cookie *out)
{
    struct token csrf = *token;
    out->token = *token;
    token_for(&csrf, STR(PURPOSE_CSRF));
    format_hex(csrf.secret_sha256, sizeof csrf.secret_sha256, out->csrf_token);
    out->csrf_token[SESSION_CSRF_BYTES - 1] = '\0';
    token_for(&out->token, STR(PURPOSE_SESSION));
}

enum error_code session_cookie_parse(struct str value, struct session_cookie *out, struct error *err)
{
    struct token token;
    enum error_code code = token_parse(value, &token, err);
    if (code == ERROR_NONE) bind(&token, out);
    explicit_bzero(&token, sizeof token);
    return code;
}

// none: typed or opened from a bookmark. Browsers that do not know the field send none.
bool session_cookie_is_cross_site(struct str sec_fetch_site)
{
    return sec_fetch_site.len && !str_eq(sec_fetch_site, STR("same-origin")) && !str_eq(sec_fetch_site, STR("none"));
}

enum error_code session_cookie_admit(const struct session_cookie *cookie, bool needs_csrf_token, struct str csrf_token,
                                     struct str sec_fetch_site, struct error *err)
{
    if (session_cookie_is_cross_site(sec_fetch_site))
        return error_set(err, ERROR_FORBIDDEN, "Sec-Fetch-Site: a session's cookie is accepted from the same origin");
    if (needs_csrf_token && !str_eq_secret(csrf_token, str_c(cookie->csrf_token)))
        return error_set(err, ERROR_FORBIDDEN,
                         "X-CSRF-Token: must be the csrfToken of this session (GET /api/auth/session)");
    return ERROR_NONE;
}

void session_cookie_generate(struct session_cookie *out, char text[TOKEN_TEXT_BYTES])
{
    struct token token;
    token_generate(&token, text);
    bind(&token, out);
    explicit_bzero(&token, sizeof token);
}

void session_cookie_write(const char *text, uint64_t max_age_s, char out[SESSION_COOKIE_BYTES])
{
    snprintf(out, SESSION_COOKIE_BYTES,
             SESSION_COOKIE_NAME "=%s; Path=/; Max-Age=%" PRIu64 "; Secure; HttpOnly; SameSite=Strict",
             text ? text : "", text ? max_age_s : 0);
}

void sign_in_link_generate(struct token *out, char text[TOKEN_TEXT_BYTES])
{
    token_generate(out, text);
    token_for(out, STR(PURPOSE_LINK));
}

enum error_code sign_in_link_parse(struct str text, struct token *out, struct error *err)
{
    enum error_code code = token_parse(text, out, err);
    if (code == ERROR_NONE) token_for(out, STR(PURPOSE_LINK));
    return code;
}
