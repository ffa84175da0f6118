// Whom the agent believes to be the platform: certificates of every bad kind, pinned keys, resumed
// sessions. Both ends of TLS in memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/tunnel/tls.h"
#include "agent/tunnel/tls_pin.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define HOST "platform.example"

// ---- certificates ----------------------------------------------------------------------------------------------

struct issued {
    X509 *certificate;
    EVP_PKEY *key;
};

struct wanted {
    const char *name, *alternative;  // common name; subjectAltName, NULL: none
    const char *constraints, *usage; // basicConstraints, extendedKeyUsage; NULL: none
    const char *name_constraints;    // of a CA
    long from_s, until_s;            // both 0: an hour around now
    const EVP_MD *digest;            // NULL: SHA-256
    int rsa_bits;                    // 0: P-256
    const struct issued *issuer;     // NULL: itself
};

static void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    if (!value) return;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
}

static struct issued issue(const struct wanted *w)
{
    static long serial = 1;
    struct issued out = {.certificate = X509_new()};
    out.key = w->rsa_bits ? EVP_RSA_gen((unsigned)w->rsa_bits) : EVP_EC_gen("P-256");
    X509 *x = out.certificate, *issuer = w->issuer ? w->issuer->certificate : x;
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x), w->until_s ? w->from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), w->until_s ? w->until_s : 3600);
    X509_set_pubkey(x, out.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)w->name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer));
    add_extension(x, issuer, NID_subject_alt_name, w->alternative);
    add_extension(x, issuer, NID_basic_constraints, w->constraints);
    add_extension(x, issuer, NID_ext_key_usage, w->usage);
    add_extension(x, issuer, NID_name_constraints, w->name_constraints);
    X509_sign(x, w->issuer ? w->issuer->key : out.key, w->digest ? w->digest : EVP_sha256());
    return out;
}

static void release(struct issued *i)
{
    X509_free(i->certificate);
    EVP_PKEY_free(i->key);
}

static void write_file(char path[64], X509 *certificate)
{
    snprintf(path, 64, "/tmp/culvert-test-trust-XXXXXX");
    FILE *file = fdopen(mkstemp(path), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
}

static void pin_of(X509 *certificate, char out[80])
{
    unsigned char *der = NULL;
    uint8_t digest[ID_SHA256_BYTES];
    char text[48];
    int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    id_sha256(der, (size_t)len, digest);
    OPENSSL_free(der);
    format_base64(digest, sizeof(digest), text);
    snprintf(out, 80, "sha256/%s", text);
}

// ---- both ends ---------------------------------------------------------------------------------------------------

struct outcome {
    bool open, resumed;
    char reason[256];
};

static SSL_CTX *server_context(const struct issued *leaf, const struct issued *intermediate)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_use_certificate(ctx, leaf->certificate);
    SSL_CTX_use_PrivateKey(ctx, leaf->key);
    if (intermediate) SSL_CTX_add1_chain_cert(ctx, intermediate->certificate);
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"x", 1);
    return ctx;
}

struct wire {
    char in[64 * 1024];
    struct byte_queue out;
};

static void to_server(struct wire *wire, SSL *server)
{
    if (!byte_queue_len(&wire->out)) return;
    BIO_write(SSL_get_rbio(server), byte_queue_front(&wire->out), (int)byte_queue_len(&wire->out));
    byte_queue_clear(&wire->out);
}

static void to_client(SSL *server, struct wire *wire, struct tls_connection *client)
{
    int n = BIO_read(SSL_get_wbio(server), wire->in, sizeof(wire->in));
    if (n > 0) tls_connection_feed(client, wire->in, (size_t)n);
}

static struct outcome connect_to(struct agent_tls *tls, SSL_CTX *ctx, const char *host)
{
    struct outcome out = {.open = false};
    struct wire wire = {.out = {0}};
    struct error err = {0};
    struct tls_connection client;
    SSL *server = SSL_new(ctx);
    enum tls_result result = TLS_AGAIN;
    char byte;
    size_t len;
    SSL_set_bio(server, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(server);
    assert_int_equal(agent_tls_connect(tls, str_c(host), &wire.out, &client, &err), ERROR_NONE);
    for (int i = 0; i < 20 && result == TLS_AGAIN; i++) {
        result = tls_connection_handshake(&client);
        if (result == TLS_FAILED) agent_tls_error(&client, &err);
        to_server(&wire, server);
        SSL_do_handshake(server);
        to_client(server, &wire, &client);
    }
    out.open = result == TLS_OK && agent_tls_established(&client, &err) == ERROR_NONE;
    out.resumed = SSL_session_reused(client.ssl);
    if (out.open) { // the tickets that TLS 1.3 sends behind the handshake
        assert_int_equal(tls_connection_read(&client, &byte, 1, &len), TLS_AGAIN);
        assert_int_equal(len, 0);
    }
    snprintf(out.reason, sizeof(out.reason), "%.*s", (int)sizeof(out.reason) - 1, err.text);
    agent_tls_connection_finish(&client);
    SSL_free(server);
    byte_queue_finish(&wire.out);
    return out;
}

static struct agent_tls *trusting(X509 *ca, const char *pins, bool resumes)
{
    char file[64];
    struct error err = {0};
    write_file(file, ca);
    struct agent_tls *tls =
        agent_tls_create(&(struct agent_tls_options){.ca_file = file, .pins = pins, .resumes = resumes}, &err);
    unlink(file);
    if (!tls) fail_msg("%s", err.text);
    return tls;
}

// ---- tests -----------------------------------------------------------------------------------------------------

static const struct wanted plain_ca = {.name = "ca", .constraints = "critical,CA:TRUE"};

static void expect_refused(const char *what, struct agent_tls *tls, const struct issued *leaf,
                           const struct issued *intermediate)
{
    SSL_CTX *ctx = server_context(leaf, intermediate);
    struct outcome out = connect_to(tls, ctx, HOST);
    if (out.open) fail_msg("%s was accepted", what);
    if (!strstr(out.reason, "not trusted")) fail_msg("%s: %s", what, out.reason);
    SSL_CTX_free(ctx);
}

static void test_bad_leaves(void **state)
{
    (void)state;
    struct issued ca = issue(&plain_ca),
                  stranger = issue(&(struct wanted){.name = "ca", .constraints = "critical,CA:TRUE"});
    struct agent_tls *tls = trusting(ca.certificate, "", false);
    const struct {
        const char *what;
        struct wanted wanted;
    } cases[] = {
        {"expired", {.alternative = "DNS:" HOST, .from_s = -7200, .until_s = -60}},
        {"not valid yet", {.alternative = "DNS:" HOST, .from_s = 3600, .until_s = 7200}},
        {"another name", {.alternative = "DNS:other.example"}},
        {"a name below it", {.alternative = "DNS:a." HOST}},
        {"a wildcard for a part of a label", {.alternative = "DNS:plat*.example"}},
        {"a wildcard for two labels", {.alternative = "DNS:*"}},
        {"only a common name", {.alternative = NULL}},
        {"an address that is spelled as a name", {.alternative = "IP:127.0.0.1"}},
        {"for clients only", {.alternative = "DNS:" HOST, .usage = "clientAuth"}},
        {"a small RSA key", {.alternative = "DNS:" HOST, .rsa_bits = 1024}},
        {"signed with SHA-1", {.alternative = "DNS:" HOST, .digest = EVP_sha1()}},
        {"signed by a stranger of the same name", {.alternative = "DNS:" HOST, .issuer = &stranger}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wanted wanted = cases[i].wanted;
        wanted.name = HOST;
        if (!wanted.issuer) wanted.issuer = &ca;
        struct issued leaf = issue(&wanted);
        expect_refused(cases[i].what, tls, &leaf, NULL);
        release(&leaf);
    }
    struct issued alone = issue(&(struct wanted){.name = HOST, .alternative = "DNS:" HOST});
    expect_refused("signed by itself", tls, &alone, NULL);
    release(&alone);
    agent_tls_destroy(tls);
    release(&ca);
    release(&stranger);
}

static void test_bad_chains(void **state)
{
    (void)state;
    const struct {
        const char *what;
        struct wanted ca, intermediate;
        bool hidden; // the server does not send it
    } cases[] = {
        {"an issuer that is no CA", plain_ca, {.name = "i", .constraints = "critical,CA:FALSE"}, false},
        {"an issuer without constraints", plain_ca, {.name = "i"}, false},
        {"a path that is too long",
         {.name = "ca", .constraints = "critical,CA:TRUE,pathlen:0"},
         {.name = "i", .constraints = "critical,CA:TRUE"},
         false},
        {"an issuer that has expired",
         plain_ca,
         {.name = "i", .constraints = "critical,CA:TRUE", .from_s = -7200, .until_s = -60},
         false},
        {"a name that the issuer may not give",
         plain_ca,
         {.name = "i", .constraints = "critical,CA:TRUE", .name_constraints = "critical,permitted;DNS:other.example"},
         false},
        {"a chain with a hole", plain_ca, {.name = "i", .constraints = "critical,CA:TRUE"}, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct issued ca = issue(&cases[i].ca);
        struct wanted wanted = cases[i].intermediate;
        wanted.issuer = &ca;
        struct issued intermediate = issue(&wanted);
        struct issued leaf = issue(&(struct wanted){.name = HOST, .alternative = "DNS:" HOST, .issuer = &intermediate});
        struct agent_tls *tls = trusting(ca.certificate, "", false);
        expect_refused(cases[i].what, tls, &leaf, cases[i].hidden ? NULL : &intermediate);
        agent_tls_destroy(tls);
        release(&leaf);
        release(&intermediate);
        release(&ca);
    }
}

static void test_pins(void **state)
{
    (void)state;
    struct issued ca = issue(&plain_ca);
    struct issued leaf = issue(&(struct wanted){.name = HOST, .alternative = "DNS:" HOST, .issuer = &ca});
    struct issued other = issue(&(struct wanted){.name = HOST, .alternative = "DNS:" HOST, .issuer = &ca});
    char leaf_pin[80], ca_pin[80], other_pin[80], several[200];
    pin_of(leaf.certificate, leaf_pin);
    pin_of(ca.certificate, ca_pin);
    pin_of(other.certificate, other_pin);
    snprintf(several, sizeof(several), "%s, %s", other_pin, leaf_pin);
    const struct {
        const char *pins;
        bool open;
    } cases[] = {{"", true}, {leaf_pin, true}, {ca_pin, true}, {several, true}, {other_pin, false}};
    SSL_CTX *ctx = server_context(&leaf, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent_tls *tls = trusting(ca.certificate, cases[i].pins, true);
        for (int again = 0; again < 2; again++) { // no session is kept that would open the listener the second time
            struct outcome out = connect_to(tls, ctx, HOST);
            assert_int_equal(out.open, cases[i].open);
            if (!out.open && !strstr(out.reason, "platform.pin")) fail_msg("%s", out.reason);
        }
        agent_tls_destroy(tls);
    }
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION); // where the session is there before the pin is looked at
    struct agent_tls *tls = trusting(ca.certificate, other_pin, true);
    assert_false(connect_to(tls, ctx, HOST).open);
    assert_false(connect_to(tls, ctx, HOST).open);
    agent_tls_destroy(tls);
    // A pin is no trust: the key is right, the issuer is not.
    struct issued stranger = issue(&plain_ca);
    tls = trusting(stranger.certificate, leaf_pin, true);
    expect_refused("a pinned key of a stranger", tls, &leaf, NULL);
    agent_tls_destroy(tls);
    SSL_CTX_free(ctx);
    release(&stranger);
    release(&other);
    release(&leaf);
    release(&ca);
}

static void test_resumption(void **state)
{
    (void)state;
    struct issued ca = issue(&plain_ca);
    struct issued leaf =
        issue(&(struct wanted){.name = HOST, .alternative = "DNS:" HOST ",DNS:other.example", .issuer = &ca});
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct agent_tls *tls = trusting(ca.certificate, "", true);
        SSL_CTX *ctx = server_context(&leaf, NULL);
        SSL_CTX_set_max_proto_version(ctx, version);
        for (int i = 0; i < 4; i++) {
            struct outcome out = connect_to(tls, ctx, HOST);
            assert_true(out.open);
            assert_int_equal(out.resumed, i > 0);
        }
        assert_false(connect_to(tls, ctx, "other.example").resumed); // a session is of one host
        // A server that has forgotten its keys (a restart) costs a whole handshake, nothing more.
        SSL_CTX *fresh = server_context(&leaf, NULL);
        struct outcome out = connect_to(tls, fresh, "other.example");
        assert_true(out.open);
        assert_false(out.resumed);
        SSL_CTX_free(fresh);
        SSL_CTX_free(ctx);
        agent_tls_destroy(tls);
    }
    release(&leaf);
    release(&ca);
}

static void test_pin_lists(void **state)
{
    (void)state;
    struct tls_pins pins;
    struct error err = {0};
    static const char good[] = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    assert_int_equal(tls_pins_parse(STR_EMPTY, &pins, &err), ERROR_NONE);
    assert_int_equal(pins.count, 0);
    assert_int_equal(tls_pins_parse(str_c(good), &pins, &err), ERROR_NONE);
    assert_true(tls_pins_have(&pins, NULL, 0)); // it is the digest of nothing
    assert_false(tls_pins_have(&pins, (const uint8_t *)"x", 1));
    static const char *const bad[] = {"x",
                                      "sha256/",
                                      "sha1/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
                                      "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
                                      "sha256/47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
                                      "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= x",
                                      "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUAAAA="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (tls_pins_parse(str_c(bad[i]), &pins, &err) == ERROR_NONE) fail_msg("%s was accepted", bad[i]);
    struct strbuf many;
    strbuf_init(&many, 4096);
    for (int i = 0; i <= TLS_PINS_MAX; i++)
        strbuf_addf(&many, "%s,", good);
    assert_int_equal(tls_pins_parse(strbuf_str(&many), &pins, &err), ERROR_TOO_LARGE);
    strbuf_finish(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_leaves), cmocka_unit_test(test_bad_chains), cmocka_unit_test(test_pins),
        cmocka_unit_test(test_resumption), cmocka_unit_test(test_pin_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
