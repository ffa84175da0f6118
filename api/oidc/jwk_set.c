#include "api/oidc/jwk_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <stdatomic.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 8192, RSA_EXPONENT_BITS_MAX = 64, NUMBER_BYTES_MAX = 1024, P256_BYTES = 32 };
enum { ED25519_BYTES = 32, SET_BYTES_MAX = 1024 * 1024 };

struct jwk {
    EVP_PKEY *key;
    unsigned algorithms; // that it may verify
    char *id;            // may be empty
};

struct jwk_set {
    atomic_uint references;
    size_t count;
    struct jwk keys[JWK_SET_KEYS_MAX];
};

enum jwk_algorithm jwk_algorithm_of(struct str name)
{
    if (str_eq(name, STR("RS256"))) return JWK_RS256;
    if (str_eq(name, STR("PS256"))) return JWK_PS256;
    if (str_eq(name, STR("ES256"))) return JWK_ES256;
    return str_eq(name, STR("EdDSA")) ? JWK_EDDSA : 0;
}

// ---- one key ------------------------------------------------------------------------------------

static EVP_PKEY *key_from(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    bool is_made = params && context && EVP_PKEY_fromdata_init(context) == 1 &&
                   EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) == 1;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return is_made ? key : NULL;
}

static BIGNUM *number_of(const json_t *value, const char *name)
{
    uint8_t bytes[NUMBER_BYTES_MAX];
    size_t len;
    struct str text = json_get_str(value, name);
    if (!text.len || parse_base64url(text, bytes, sizeof bytes, &len, NULL) != ERROR_NONE) return NULL;
    return BN_bin2bn(bytes, (int)len, NULL);
}

static EVP_PKEY *rsa_of(const json_t *value)
{
    EVP_PKEY *key = NULL;
    BIGNUM *n = number_of(value, "n"), *e = number_of(value, "e");
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    bool fits = n && e && BN_num_bits(n) >= RSA_BITS_MIN && BN_num_bits(n) <= RSA_BITS_MAX && BN_is_odd(e) &&
                !BN_is_one(e) && BN_num_bits(e) <= RSA_EXPONENT_BITS_MAX;
    if (fits && builder && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e))
        key = key_from("RSA", builder);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    return key;
}

static EVP_PKEY *p256_of(const json_t *value)
{
    uint8_t point[1 + 2 * P256_BYTES] = {4}; // uncompressed
    size_t x, y;
    if (parse_base64url(json_get_str(value, "x"), point + 1, P256_BYTES, &x, NULL) != ERROR_NONE || x != P256_BYTES ||
        parse_base64url(json_get_str(value, "y"), point + 1 + P256_BYTES, P256_BYTES, &y, NULL) != ERROR_NONE ||
        y != P256_BYTES)
        return NULL;
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (builder && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point))
        key = key_from("EC", builder);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

static EVP_PKEY *ed25519_of(const json_t *value)
{
    uint8_t bytes[ED25519_BYTES];
    size_t len;
    struct str text = json_get_str(value, "x");
    if (parse_base64url(text, bytes, sizeof bytes, &len, NULL) != ERROR_NONE || len != sizeof bytes) return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, bytes, sizeof bytes);
}

static bool is_for_signatures(const json_t *value)
{
    struct str use = json_get_str(value, "use");
    return !use.len || str_eq(use, STR("sig"));
}

static bool take_key(const json_t *value, struct jwk *out)
{
    struct str type = json_get_str(value, "kty"), curve = json_get_str(value, "crv"), id = json_get_str(value, "kid");
    struct str algorithm = json_get_str(value, "alg");
    *out = (struct jwk){0};
    if (!is_for_signatures(value) || id.len > JWK_ID_BYTES_MAX) return false;
    if (str_eq(type, STR("RSA"))) {
        out->algorithms = JWK_RS256 | JWK_PS256;
        out->key = rsa_of(value);
    } else if (str_eq(type, STR("EC")) && str_eq(curve, STR("P-256"))) {
        out->algorithms = JWK_ES256;
        out->key = p256_of(value);
    } else if (str_eq(type, STR("OKP")) && str_eq(curve, STR("Ed25519"))) {
        out->algorithms = JWK_EDDSA;
        out->key = ed25519_of(value);
    }
    if (algorithm.len) out->algorithms &= (unsigned)jwk_algorithm_of(algorithm);
    if (out->key && out->algorithms) {
        out->id = mem_strndup(id.at, id.len);
        return true;
    }
    EVP_PKEY_free(out->key);
    return false;
}

// ---- the set ------------------------------------------------------------------------------------

enum error_code jwk_set_parse(struct str text, struct jwk_set **out, struct error *err)
{
    const struct json_limits limits = {.bytes_max = SET_BYTES_MAX, .depth_max = 8};
    json_t *value = NULL, *key;
    size_t i;
    if (json_decode(text, &limits, &value, err) != ERROR_NONE) {
        error_prefix(err, "the key set is not JSON");
        return err->code = ERROR_INVALID;
    }
    struct jwk_set *set = mem_zalloc(sizeof *set);
    atomic_init(&set->references, 1);
    json_array_foreach(json_get_array(value, "keys"), i, key)
    {
        if (set->count < JWK_SET_KEYS_MAX && take_key(key, &set->keys[set->count])) set->count++;
    }
    json_decref(value);
    if (set->count) {
        *out = set;
        return ERROR_NONE;
    }
    jwk_set_unref(set);
    return error_set(err, ERROR_INVALID,
                     "the key set has no key for signatures that can be used (RSA of %d bits or more, P-256, Ed25519)",
                     RSA_BITS_MIN);
}

struct jwk_set *jwk_set_ref(struct jwk_set *set)
{
    atomic_fetch_add(&set->references, 1);
    return set;
}

void jwk_set_unref(struct jwk_set *set)
{
    if (!set || atomic_fetch_sub(&set->references, 1) > 1) return;
    for (size_t i = 0; i < set->count; i++) {
        EVP_PKEY_free(set->keys[i].key);
        mem_free(set->keys[i].id);
    }
    mem_free(set);
}

EVP_PKEY *jwk_set_find(const struct jwk_set *set, struct str id, enum jwk_algorithm algorithm)
{
    EVP_PKEY *found = NULL;
    for (size_t i = 0; i < set->count; i++) {
        const struct jwk *key = &set->keys[i];
        if (!(key->algorithms & (unsigned)algorithm) || (id.len && !str_eq(str_c(key->id), id))) continue;
        if (found) return NULL;
        found = key->key;
    }
    return found;
}
