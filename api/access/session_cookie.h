// session_cookie: the cookie of a browser session, and the CSRF token that belongs to it. The
// cookie's value has the form of a token, "<id>.<secret>", but is no API key, and an API key is no
// cookie: their hashes differ by purpose (base/token.h). The CSRF token is derived from the secret,
// so it is stored nowhere, and is what the page sends back in X-CSRF-Token: another site can
// neither read it nor set that header. Pure; any thread.
#ifndef CULVERT_API_ACCESS_SESSION_COOKIE_H
#define CULVERT_API_ACCESS_SESSION_COOKIE_H

#include <stdbool.h>

#include "base/token.h"

// RFC 6265bis section 4.1.3.2: with this prefix a browser takes it from this host alone, over TLS.
#define SESSION_COOKIE_NAME "__Host-culvert-session"

enum { SESSION_COOKIE_BYTES = 256, SESSION_CSRF_BYTES = ID_SHA256_HEX_BYTES };

struct session_cookie {
    struct token token; // its hash as it is stored
    char csrf_token[SESSION_CSRF_BYTES];
};

// The value in a Cookie field. Empty: there is none, or more than one.
struct str session_cookie_find(struct str field);
// The same of any cookie.
struct str session_cookie_named(struct str field, struct str wanted);
// ERROR_INVALID: not of the form.
MUST_CHECK enum error_code session_cookie_parse(struct str value, struct session_cookie *out, struct error *err);
// May a request with this cookie go on? ERROR_FORBIDDEN: it comes from another site, or has to have
// a CSRF token and has none, or another session's. Fields are as the browser sent them.
MUST_CHECK enum error_code session_cookie_admit(const struct session_cookie *cookie, bool needs_csrf_token,
                                                struct str csrf_token, struct str sec_fetch_site, struct error *err);
// The same about the site alone.
bool session_cookie_is_cross_site(struct str sec_fetch_site);

// A new secret. text is its only copy, for the cookie.
void session_cookie_generate(struct session_cookie *out, char text[TOKEN_TEXT_BYTES]);
// The value of Set-Cookie. text NULL: the browser drops the cookie.
void session_cookie_write(const char *text, uint64_t max_age_s, char out[SESSION_COOKIE_BYTES]);

// Of a one-time link: a credential of its own kind.
void sign_in_link_generate(struct token *out, char text[TOKEN_TEXT_BYTES]);
MUST_CHECK enum error_code sign_in_link_parse(struct str text, struct token *out, struct error *err);

#endif
