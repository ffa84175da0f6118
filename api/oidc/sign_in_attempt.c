#include "api/oidc/sign_in_attempt.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/access/session_cookie.h"
#include "base/id.h"
#include "base/parse.h"

// Lines of the plain text: end, provider, state, nonce, verifier, path.
enum { SECRET_BYTES = 32, PLAIN_BYTES_MAX = 1024, SEALED_BYTES_MAX = PLAIN_BYTES_MAX + PURPOSE_KEY_SEAL_BYTES };

static const struct str context = {"culvert sign-in attempt", sizeof "culvert sign-in attempt" - 1};

static void make_secret(char out[SIGN_IN_SECRET_BYTES])
{
    uint8_t bytes[SECRET_BYTES];
    id_random(bytes, sizeof bytes);
    out[format_base64url(bytes, sizeof bytes, out)] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

static void copy(struct str text, char *out, size_t bytes)
{
    snprintf(out, bytes, "%.*s", STR_ARG(text));
}

void sign_in_attempt_init(struct sign_in_attempt *attempt, struct str provider, struct str path, int64_t ends_at_ms)
{
    *attempt = (struct sign_in_attempt){.ends_at_ms = ends_at_ms};
    copy(provider, attempt->provider, sizeof attempt->provider);
    copy(path, attempt->path, sizeof attempt->path);
    make_secret(attempt->state);
    make_secret(attempt->nonce);
    make_secret(attempt->verifier);
}

void sign_in_attempt_challenge(const struct sign_in_attempt *attempt, char out[SIGN_IN_SECRET_BYTES])
{
    uint8_t digest[ID_SHA256_BYTES];
    id_sha256(attempt->verifier, strlen(attempt->verifier), digest);
    out[format_base64url(digest, sizeof digest, out)] = '\0';
}

void sign_in_attempt_write(const struct sign_in_attempt *attempt, const struct purpose_key *key, uint64_t max_age_s,
                           char out[SIGN_IN_COOKIE_BYTES])
{
    char plain[PLAIN_BYTES_MAX], text[2 * SEALED_BYTES_MAX] = "";
    uint8_t sealed[SEALED_BYTES_MAX];
    if (attempt) {
        int len = snprintf(plain, sizeof plain, "%" PRId64 "\n%s\n%s\n%s\n%s\n%s", attempt->ends_at_ms,
                           attempt->provider, attempt->state, attempt->nonce, attempt->verifier, attempt->path);
        purpose_key_seal(key, context, str_of(plain, (size_t)len), sealed);
        text[format_base64url(sealed, (size_t)len + PURPOSE_KEY_SEAL_BYTES, text)] = '\0';
        explicit_bzero(plain, sizeof plain);
    }
    snprintf(out, SIGN_IN_COOKIE_BYTES,
             SIGN_IN_ATTEMPT_COOKIE "=%s; Path=/; Max-Age=%" PRIu64 "; Secure; HttpOnly; SameSite=Lax", text,
             attempt ? max_age_s : 0);
}

static bool parse_plain(struct str plain, struct sign_in_attempt *out)
{
    struct str lines[6];
    for (size_t i = 0; i < 5; i++)
        if (!str_cut(&plain, '\n', &lines[i])) return false;
    lines[5] = plain;
    if (parse_i64(lines[0], 0, INT64_MAX, &out->ends_at_ms, NULL) != ERROR_NONE) return false;
    copy(lines[1], out->provider, sizeof out->provider);
    copy(lines[2], out->state, sizeof out->state);
    copy(lines[3], out->nonce, sizeof out->nonce);
    copy(lines[4], out->verifier, sizeof out->verifier);
    copy(lines[5], out->path, sizeof out->path);
    return true;
}

bool sign_in_attempt_read(struct str cookie_field, const struct purpose_key *key, int64_t now_ms,
                          struct sign_in_attempt *out)
{
    uint8_t sealed[SEALED_BYTES_MAX], plain[PLAIN_BYTES_MAX];
    size_t len;
    struct str value = session_cookie_named(cookie_field, STR(SIGN_IN_ATTEMPT_COOKIE));
    if (!value.len || parse_base64url(value, sealed, sizeof sealed, &len, NULL) != ERROR_NONE ||
        len <= PURPOSE_KEY_SEAL_BYTES ||
        !purpose_key_open(key, context, str_of((const char *)sealed, len), plain, NULL))
        return false;
    bool is_read = parse_plain(str_of((const char *)plain, len - PURPOSE_KEY_SEAL_BYTES), out);
    explicit_bzero(plain, sizeof plain);
    return is_read && now_ms < out->ends_at_ms;
}

bool sign_in_path_is_safe(struct str path)
{
    if (!str_starts(path, STR("ui/")) || path.len > SIGN_IN_PATH_BYTES_MAX) return false;
    for (size_t i = 0; i < path.len; i++) {
        char byte = path.at[i];
        bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                        (byte && strchr("-._~!$&'()*+,;=:@/?%", byte));
        if (!is_plain) return false;
    }
    return true;
}
