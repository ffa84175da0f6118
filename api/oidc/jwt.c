#include "api/oidc/jwt.h"

#include <openssl/ecdsa.h>
#include <openssl/rsa.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"

enum { P256_BYTES = 32, DER_BYTES_MAX = 128, POINTER_NAME_BYTES_MAX = 128, SUBJECT_BYTES_MAX = 255 };

static enum error_code refuse(struct error *err, const char *why)
{
    return error_set(err, ERROR_UNAUTHENTICATED, "the token %s", why);
}

// ---- form ---------------------------------------------------------------------------------------

static json_t *decode_part(struct str part)
{
    const struct json_limits limits = {.bytes_max = JWT_BYTES_MAX, .depth_max = 16};
    json_t *value = NULL;
    size_t len;
    uint8_t *bytes = mem_alloc(part.len + 1);
    bool is_object = part.len && parse_base64url(part, bytes, part.len, &len, NULL) == ERROR_NONE &&
                     json_decode(str_of((const char *)bytes, len), &limits, &value, NULL) == ERROR_NONE &&
                     json_is_object(value);
    mem_free(bytes);
    if (is_object) return value;
    json_decref(value);
    return NULL;
}

static enum error_code check_header(const json_t *header, unsigned algorithms, enum jwk_algorithm *out,
                                    struct error *err)
{
    enum jwk_algorithm algorithm = jwk_algorithm_of(json_get_str(header, "alg"));
    struct str type = json_get_str(header, "typ");
    if (!(algorithm & algorithms)) return refuse(err, "is signed by an algorithm (alg) that is not accepted");
    if (json_object_get(header, "crit")) return refuse(err, "has critical extensions (crit), of which none is known");
    if (type.len && !str_eq_nocase(type, STR("JWT"))) return refuse(err, "is of another type (typ)");
    *out = algorithm;
    return ERROR_NONE;
}

enum error_code jwt_parse(struct str text, unsigned algorithms, struct jwt *out, struct error *err)
{
    struct str rest = text, header, claims;
    struct jwt jwt = {0};
    if (text.len > JWT_BYTES_MAX) return refuse(err, "is too long");
    if (!str_cut(&rest, '.', &header) || !str_cut(&rest, '.', &claims) || str_has_byte(rest, '.'))
        return refuse(err, "does not have three parts");
    jwt.signing_input = str_of(text.at, header.len + 1 + claims.len);
    jwt.header = decode_part(header);
    jwt.claims = decode_part(claims);
    enum error_code code = ERROR_NONE;
    if (!jwt.header || !jwt.claims ||
        parse_base64url(rest, jwt.signature, sizeof jwt.signature, &jwt.signature_len, NULL) != ERROR_NONE)
        code = refuse(err, "has a part that is not base64url of JSON");
    else
        code = check_header(jwt.header, algorithms, &jwt.algorithm, err);
    if (code == ERROR_NONE)
        *out = jwt;
    else
        jwt_finish(&jwt);
    return code;
}

void jwt_finish(struct jwt *jwt)
{
    json_decref(jwt->header);
    json_decref(jwt->claims);
    *jwt = (struct jwt){0};
}

// ---- signature ----------------------------------------------------------------------------------

// r and s as they stand in a JWS (RFC 7518 section 3.4) to DER, which OpenSSL reads. 0: malformed.
static size_t der_of(const uint8_t *signature, size_t len, uint8_t out[DER_BYTES_MAX])
{
    int bytes = 0;
    if (len != 2 * P256_BYTES) return 0;
    ECDSA_SIG *both = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, P256_BYTES, NULL), *s = BN_bin2bn(signature + P256_BYTES, P256_BYTES, NULL);
    if (both && r && s && ECDSA_SIG_set0(both, r, s) == 1) {
        bytes = i2d_ECDSA_SIG(both, &out);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(both);
    return bytes > 0 ? (size_t)bytes : 0;
}

static bool has_padding(EVP_PKEY_CTX *context, enum jwk_algorithm algorithm)
{
    if (algorithm == JWK_RS256) return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
    if (algorithm != JWK_PS256) return true;
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha256()) == 1;
}

static bool is_signed_by(const struct jwt *jwt, EVP_PKEY *key)
{
    uint8_t der[DER_BYTES_MAX];
    const uint8_t *signature = jwt->signature;
    size_t len = jwt->signature_len;
    if (jwt->algorithm == JWK_ES256) {
        len = der_of(signature, len, der);
        signature = der;
    }
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    EVP_PKEY_CTX *context = NULL;
    const EVP_MD *md = jwt->algorithm == JWK_EDDSA ? NULL : EVP_sha256();
    bool is_valid =
        len && digest && EVP_DigestVerifyInit(digest, &context, md, NULL, key) == 1 &&
        has_padding(context, jwt->algorithm) &&
        EVP_DigestVerify(digest, signature, len, (const uint8_t *)jwt->signing_input.at, jwt->signing_input.len) == 1;
    EVP_MD_CTX_free(digest);
    return is_valid;
}

enum error_code jwt_verify(const struct jwt *jwt, const struct jwk_set *keys, struct error *err)
{
    EVP_PKEY *key = jwk_set_find(keys, json_get_str(jwt->header, "kid"), jwt->algorithm);
    if (!key) return error_set(err, ERROR_NOT_FOUND, "the issuer has no key of the token's id (kid) and algorithm");
    return is_signed_by(jwt, key) ? ERROR_NONE : refuse(err, "has a wrong signature");
}

// ---- claims -------------------------------------------------------------------------------------

bool jwt_claim_has(const json_t *claim, struct str text)
{
    size_t i;
    json_t *item;
    if (json_is_string(claim)) return str_eq(json_str(claim), text);
    json_array_foreach(claim, i, item)
    {
        if (json_is_string(item) && str_eq(json_str(item), text)) return true;
    }
    return false;
}

bool jwt_claim_fits(const json_t *claim, const json_t *wanted)
{
    size_t i;
    json_t *item;
    if (json_is_string(wanted)) return jwt_claim_has(claim, json_str(wanted));
    json_array_foreach(wanted, i, item)
    {
        if (jwt_claim_has(claim, json_str(item))) return true;
    }
    return false;
}

bool jwt_claims_fit(const json_t *claims, const json_t *wanted)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)wanted, name, value)
    {
        if (!jwt_claim_fits(jwt_claim(claims, str_c(name)), value)) return false;
    }
    return true;
}

// ~1 is a slash, ~0 a tilde.
static bool unescape(struct str part, char out[POINTER_NAME_BYTES_MAX])
{
    size_t len = 0;
    if (part.len >= POINTER_NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < part.len; i++) {
        bool is_escape = part.at[i] == '~' && i + 1 < part.len && (part.at[i + 1] == '0' || part.at[i + 1] == '1');
        out[len++] = !is_escape ? part.at[i] : part.at[++i] == '1' ? '/' : '~';
    }
    out[len] = '\0';
    return true;
}

json_t *jwt_claim(const json_t *claims, struct str name)
{
    if (!str_starts(name, STR("/"))) return json_object_getn(claims, name.at, name.len);
    struct str rest = str_from(name, 1), part;
    const json_t *value = claims;
    bool more;
    do {
        char text[POINTER_NAME_BYTES_MAX];
        more = str_cut(&rest, '/', &part);
        value = unescape(part, text) ? json_object_get(value, text) : NULL;
    } while (more && value);
    return (json_t *)value;
}

static enum error_code check_audience(const json_t *claims, struct str audience, struct error *err)
{
    const json_t *claim = json_object_get(claims, "aud"), *party = json_object_get(claims, "azp");
    if (!jwt_claim_has(claim, audience)) return refuse(err, "is not for this client (aud)");
    bool is_one_of_several = json_is_array(claim) && json_array_size(claim) > 1;
    if ((party || is_one_of_several) && !(json_is_string(party) && str_eq(json_str(party), audience)))
        return refuse(err, "was issued to another client (azp)");
    return ERROR_NONE;
}

// A NumericDate may have a fraction (RFC 7519 section 2).
static bool time_of(const json_t *claims, const char *name, double *out)
{
    const json_t *value = json_object_get(claims, name);
    *out = json_number_value(value);
    return json_is_number(value);
}

static enum error_code check_times(const json_t *claims, const struct jwt_expected *expected, struct error *err)
{
    double now = (double)expected->now_s, skew = (double)expected->skew_s, at;
    if (!time_of(claims, "exp", &at)) return refuse(err, "has no end (exp)");
    if (now >= at + skew) return refuse(err, "has expired (exp)");
    if (!time_of(claims, "iat", &at)) return refuse(err, "has no time of issue (iat)");
    if (at > now + skew) return refuse(err, "was issued in the future (iat); are both clocks right?");
    if (expected->age_max_s && now > at + (double)expected->age_max_s + skew)
        return refuse(err, "was issued too long ago (iat)");
    if (json_object_get(claims, "nbf") && (!time_of(claims, "nbf", &at) || at > now + skew))
        return refuse(err, "is not valid yet (nbf)");
    return ERROR_NONE;
}

enum error_code jwt_check_claims(const json_t *claims, const struct jwt_expected *expected, struct error *err)
{
    struct str subject = json_get_str(claims, "sub");
    if (!str_eq(json_get_str(claims, "iss"), expected->issuer)) return refuse(err, "is of another issuer (iss)");
    if (check_audience(claims, expected->audience, err) != ERROR_NONE ||
        check_times(claims, expected, err) != ERROR_NONE)
        return err->code;
    if (expected->nonce.len && !str_eq_secret(json_get_str(claims, "nonce"), expected->nonce))
        return refuse(err, "is of another sign-in (nonce)");
    if (!subject.len || subject.len > SUBJECT_BYTES_MAX) return refuse(err, "has no subject (sub) of 1 to 255 bytes");
    return ERROR_NONE;
}
