#include "agent/tunnel/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "agent/tunnel/tls_pin.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

struct agent_tls {
    SSL_CTX *ctx;
    BIO_METHOD *method;
    struct tls_pins pins;
    bool resumes;
    SSL_SESSION *session; // to resume with session_host, or NULL
    char session_host[256];
    unsigned refs; // its owner and its connections
    struct metric_family *handshakes;
};

static enum error_code library_error(struct error *err, const char *what)
{
    char text[160] = "no reason given";
    unsigned long code = ERR_get_error();
    if (code) ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, "%s: %s", what, text);
}

static enum error_code load_trust(SSL_CTX *ctx, const char *ca_file, struct error *err)
{
    if (ca_file[0] ? SSL_CTX_load_verify_file(ctx, ca_file) : SSL_CTX_set_default_verify_paths(ctx)) return ERROR_NONE;
    return library_error(err, ca_file[0] ? ca_file : "system CA certificates");
}

// ---- sessions ----------------------------------------------------------------------------------------------------

static void set_session(struct agent_tls *tls, SSL_SESSION *session, const char *host)
{
    SSL_SESSION_free(tls->session);
    tls->session = session;
    snprintf(tls->session_host, sizeof(tls->session_host), "%s", host);
}

static const char *host_of(const SSL *ssl)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    return name ? name : "";
}

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct agent_tls *tls = SSL_get_app_data(ssl);
    if (!tls->resumes || !host_of(ssl)[0]) return 0;
    set_session(tls, session, host_of(ssl));
    return 1; // ours now
}

// A ticket of TLS 1.3 serves once (RFC 8446 appendix C.4); the connection brings the next.
static void use_session(struct agent_tls *tls, SSL *ssl, const char *host)
{
    if (!tls->session || strcmp(tls->session_host, host) != 0) return;
    SSL_set_session(ssl, tls->session);
    if (SSL_SESSION_get_protocol_version(tls->session) >= TLS1_3_VERSION) set_session(tls, NULL, "");
}

// A session that was not tried (no listener) is still good.
static void give_session_back(struct agent_tls *tls, SSL *ssl)
{
    if (!tls->session && tls->resumes && SSL_in_before(ssl)) set_session(tls, SSL_get1_session(ssl), host_of(ssl));
}

// ---- context -----------------------------------------------------------------------------------------------------

static void unref(struct agent_tls *tls)
{
    if (--tls->refs) return;
    SSL_SESSION_free(tls->session);
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    mem_free(tls);
}

static enum error_code configure(struct agent_tls *tls, const struct agent_tls_options *options, struct error *err)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    ERR_clear_error();
    if (tls_pins_parse(str_c(options->pins), &tls->pins, err)) return error_prefix(err, "platform.pin");
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (!tls->ctx) return library_error(err, "TLS");
    enum error_code code = load_trust(tls->ctx, options->ca_file, err);
    if (code) return code;
    SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
    SSL_CTX_set_security_level(tls->ctx, 2); // no RSA below 2048 bits, no SHA-1
    SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(tls->ctx, alpn, sizeof(alpn) - 1);
    SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(tls->ctx, on_new_session);
    return ERROR_NONE;
}

struct agent_tls *agent_tls_create(const struct agent_tls_options *options, struct error *err)
{
    struct agent_tls *tls = mem_zalloc(sizeof(*tls));
    tls->refs = 1;
    tls->method = tls_connection_method_create();
    tls->resumes = options->resumes;
    tls->handshakes =
        metrics_counter("culvert_agent_tls_handshakes_total", "Completed TLS handshakes.", "resumed", NULL);
    if (configure(tls, options, err) == ERROR_NONE) return tls;
    unref(tls);
    return NULL;
}

void agent_tls_destroy(struct agent_tls *tls)
{
    if (tls) unref(tls);
}

// ---- connections ------------------------------------------------------------------------

void agent_tls_connection_finish(struct tls_connection *connection)
{
    SSL *ssl = connection->ssl;
    if (!ssl) return;
    struct agent_tls *tls = SSL_get_app_data(ssl);
    give_session_back(tls, ssl);
    // OpenSSL holds a session for broken whose connection ended without close_notify; RFC 5246
    // section 7.2.1 does not, and connections that broke are the ones that resume.
    if (SSL_is_init_finished(ssl)) SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    tls_connection_finish(connection);
    unref(tls);
}

enum error_code agent_tls_connect(struct agent_tls *tls, struct str host, struct byte_queue *leaving,
                                  struct tls_connection *out, struct error *err)
{
    char name[256];
    if (!host.len || host.len >= sizeof(name))
        return error_set(err, ERROR_INVALID, "TLS host name of %zu bytes", host.len);
    snprintf(name, sizeof(name), "%.*s", STR_ARG(host));
    ERR_clear_error();
    tls_connection_connect(out, tls->method, tls->ctx, leaving);
    SSL_set_app_data(out->ssl, tls);
    tls->refs++;
    if (!tls_connection_expect_host(out, name, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)) { // RFC 9525
        agent_tls_connection_finish(out);
        return library_error(err, "TLS connection");
    }
    use_session(tls, out->ssl, name);
    return ERROR_NONE;
}

static bool chain_has_pin(SSL *ssl, const struct tls_pins *pins)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    bool found = false;
    for (int i = 0; chain && i < sk_X509_num(chain) && !found; i++) {
        unsigned char *der = NULL;
        int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(sk_X509_value(chain, i)), &der);
        found = len > 0 && tls_pins_have(pins, der, (size_t)len);
        OPENSSL_free(der);
    }
    return found;
}

// A resumed session has no chain: it is one of ours, so these very pins were met when it began.
enum error_code agent_tls_established(struct tls_connection *connection, struct error *err)
{
    SSL *ssl = connection->ssl;
    struct agent_tls *tls = SSL_get_app_data(ssl);
    bool resumed = SSL_session_reused(ssl);
    if (tls->pins.count && !resumed && !chain_has_pin(ssl, &tls->pins)) {
        set_session(tls, NULL, "");
        return error_set(err, ERROR_IO, "the platform's certificate has none of the pinned keys (platform.pin)");
    }
    metric_add(metric_with(tls->handshakes, resumed ? "yes" : "no"), 1);
    return ERROR_NONE;
}

enum error_code agent_tls_error(const struct tls_connection *connection, struct error *err)
{
    long verdict = SSL_get_verify_result(connection->ssl);
    if (verdict != X509_V_OK && !SSL_is_init_finished(connection->ssl))
        return error_set(err, ERROR_IO, "the platform's certificate is not trusted: %s",
                         X509_verify_cert_error_string(verdict));
    if (!connection->failure) return error_set(err, ERROR_IO, "the connection was closed by the other end");
    char text[160];
    ERR_error_string_n(connection->failure, text, sizeof(text));
    return error_set(err, ERROR_IO, "TLS: %s", text);
}
