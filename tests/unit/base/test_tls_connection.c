// Two ends of TLS in memory: handshake, bytes, and each way in which they end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/tls/tls_connection.h"

struct pair {
    BIO_METHOD *method;
    SSL_CTX *server_ctx, *client_ctx;
    struct tls_connection server, client;
    struct byte_queue to_server, to_client;
};

static SSL_CTX *server_context(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_set_pubkey(certificate, key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(ctx, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return ctx;
}

static int setup(void **state)
{
    static struct pair pair;
    memset(&pair, 0, sizeof pair);
    pair.method = tls_connection_method_create();
    pair.server_ctx = server_context();
    pair.client_ctx = SSL_CTX_new(TLS_client_method());
    tls_connection_accept(&pair.server, pair.method, pair.server_ctx, &pair.to_client);
    tls_connection_connect(&pair.client, pair.method, pair.client_ctx, &pair.to_server);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    tls_connection_finish(&pair->server);
    tls_connection_finish(&pair->client);
    byte_queue_finish(&pair->to_server);
    byte_queue_finish(&pair->to_client);
    SSL_CTX_free(pair->server_ctx);
    SSL_CTX_free(pair->client_ctx);
    BIO_meth_free(pair->method);
    assert_int_equal(ERR_peek_error(), 0); // nothing is left for another connection to find
    return 0;
}

// The queue's bytes arrive.
static void carry(struct byte_queue *queue, struct tls_connection *to)
{
    tls_connection_feed(to, byte_queue_front(queue), byte_queue_len(queue));
    assert_true(tls_connection_hold(to));
    byte_queue_clear(queue);
}

static void shake_hands(struct pair *pair)
{
    assert_int_equal(tls_connection_handshake(&pair->client), TLS_AGAIN);
    carry(&pair->to_server, &pair->server);
    assert_int_equal(tls_connection_handshake(&pair->server), TLS_AGAIN);
    carry(&pair->to_client, &pair->client);
    assert_int_equal(tls_connection_handshake(&pair->client), TLS_OK);
    carry(&pair->to_server, &pair->server);
    assert_int_equal(tls_connection_handshake(&pair->server), TLS_OK);
    carry(&pair->to_client, &pair->client); // tickets
}

static void carries_many_records_at_once(void **state)
{
    struct pair *pair = *state;
    static char sent[100000], got[sizeof sent + 1];
    size_t len;
    memset(sent, 'x', sizeof sent);
    shake_hands(pair);
    assert_true(tls_connection_write(&pair->client, sent, sizeof sent));
    carry(&pair->to_server, &pair->server);
    assert_true(tls_connection_has_input(&pair->server));
    assert_false(tls_connection_rests(&pair->server));
    assert_int_equal(tls_connection_read(&pair->server, got, 10, &len), TLS_OK);
    assert_int_equal(len, 10);
    assert_int_equal(tls_connection_read(&pair->server, got + 10, sizeof got - 10, &len), TLS_AGAIN);
    assert_int_equal(len, sizeof sent - 10);
    assert_memory_equal(sent, got, sizeof sent);
    assert_true(tls_connection_rests(&pair->server));
    assert_false(tls_connection_in_record(&pair->server));
}

static void half_a_record_is_held(void **state)
{
    struct pair *pair = *state;
    char got[8];
    size_t len;
    shake_hands(pair);
    assert_true(tls_connection_write(&pair->client, "hello", 5));
    tls_connection_feed(&pair->server, byte_queue_front(&pair->to_server), 9);
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_AGAIN);
    assert_int_equal(len, 0);
    assert_true(tls_connection_in_record(&pair->server));
    byte_queue_drop(&pair->to_server, 9);
    carry(&pair->to_server, &pair->server);
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_AGAIN);
    assert_int_equal(len, 5);
}

static void close_notify_ends_one_direction(void **state)
{
    struct pair *pair = *state;
    char got[8];
    size_t len;
    shake_hands(pair);
    assert_true(tls_connection_write(&pair->client, "last", 4));
    tls_connection_end(&pair->client);
    carry(&pair->to_server, &pair->server);
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_END);
    assert_int_equal(len, 4);
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_END);
    assert_int_equal(len, 0);
    assert_true(tls_connection_write(&pair->server, "answer", 6));
    carry(&pair->to_client, &pair->client);
    assert_int_equal(tls_connection_read(&pair->client, got, sizeof got, &len), TLS_AGAIN);
    assert_int_equal(len, 6);
}

static void a_cut_is_an_end_or_an_error(void **state)
{
    struct pair *pair = *state;
    char got[8];
    size_t len;
    shake_hands(pair);
    assert_true(tls_connection_write(&pair->client, "cut", 3));
    carry(&pair->to_server, &pair->server);
    pair->server.input_ended = true;
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_END);
    assert_int_equal(len, 3);
    pair->client.end_is_notified = true;
    pair->client.input_ended = true;
    assert_int_equal(tls_connection_read(&pair->client, got, sizeof got, &len), TLS_FAILED);
    assert_non_null(strstr(tls_connection_error(&pair->client), "unexpected eof"));
    assert_false(tls_connection_write(&pair->client, "more", 4));
}

static void an_end_in_the_handshake_fails(void **state)
{
    struct pair *pair = *state;
    assert_int_equal(tls_connection_handshake(&pair->client), TLS_AGAIN);
    pair->client.input_ended = true;
    assert_int_equal(tls_connection_handshake(&pair->client), TLS_FAILED);
    assert_string_equal(tls_connection_error(&pair->client), "closed by the peer");
    tls_connection_end(&pair->client);
}

static void garbage_fails_with_its_reason(void **state)
{
    struct pair *pair = *state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    tls_connection_feed(&pair->server, request, sizeof request - 1);
    assert_int_equal(tls_connection_handshake(&pair->server), TLS_FAILED);
    assert_string_equal(tls_connection_error(&pair->server), "http request");
    pair->server.arriving = STR_EMPTY;
}

static void a_full_queue_breaks_it(void **state)
{
    struct pair *pair = *state;
    char bytes[100] = {0}, got[8];
    size_t len;
    shake_hands(pair);
    pair->to_server.bytes_max = 200;
    assert_true(tls_connection_write(&pair->client, bytes, sizeof bytes));
    assert_false(tls_connection_write(&pair->client, bytes, sizeof bytes));
    assert_int_equal(tls_connection_read(&pair->client, got, sizeof got, &len), TLS_FAILED);
}

static void goes_on_elsewhere(void **state)
{
    struct pair *pair = *state;
    char got[8];
    size_t len;
    shake_hands(pair);
    assert_int_equal(tls_connection_read(&pair->client, got, sizeof got, &len), TLS_AGAIN); // the tickets
    SSL *ssl = tls_connection_release(&pair->client);
    struct tls_connection moved;
    tls_connection_resume(&moved, pair->method, ssl, &pair->to_server);
    assert_true(tls_connection_write(&moved, "here", 4));
    carry(&pair->to_server, &pair->server);
    assert_int_equal(tls_connection_read(&pair->server, got, sizeof got, &len), TLS_AGAIN);
    assert_int_equal(len, 4);
    tls_connection_finish(&moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(carries_many_records_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(half_a_record_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(close_notify_ends_one_direction, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cut_is_an_end_or_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_in_the_handshake_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_fails_with_its_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_queue_breaks_it, setup, teardown),
        cmocka_unit_test_setup_teardown(goes_on_elsewhere, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
