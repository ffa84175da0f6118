// The hop between replicas on threads: two loops with links, one that takes their connections, and TLS settings that
// are shared by all and renewed meanwhile. What is said comes back whole; what TSan looks at is everything below it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "server/peer/peer_links.h"
#include "server/peer/peer_stream.h"
#include "server/peer/peer_tls.h"
#include "tests/support/tally.h"

enum { LOOPS = 2, AT_ONCE = 8, EACH = 40, BODY_BYTES = 150 * 1000, RENEWALS = 10 };

// One loop with its pool. The first takes connections, the others make them.
struct side {
    struct loop *loop;
    struct peer_pool pool;
    struct peer_links *links;
    unsigned begun;
    SSL_CTX *tls;
    uv_tcp_t *listener;
};

struct talk {
    struct side *side;
    struct peer_stream *stream;
    size_t came;
    int status;
};

static struct bench {
    struct side listener, sides[LOOPS];
    char address[32];
    uint8_t body[BODY_BYTES];
    struct tally tally; // its mutex guards the rest
    unsigned done, failed, ready, closed;
} bench = {.tally = TALLY_INITIALIZER};

static void note(unsigned *count)
{
    tally_note(&bench.tally, count);
}

static void wait_until(const unsigned *count, unsigned wanted)
{
    assert_int_equal(tally_wait(&bench.tally, count, wanted), wanted);
}

static void ignore_info(void *arg, int status)
{
    (void)arg;
    (void)status;
}

static void ignore_fields(void *arg, int status, const struct http_header *fields, size_t count)
{
    (void)arg;
    (void)status;
    (void)fields;
    (void)count;
}

static void ignore_trailers(void *arg, const struct http_header *fields, size_t count)
{
    ignore_fields(arg, 0, fields, count);
}

static void ignore_taken(void *arg, size_t len)
{
    (void)arg;
    (void)len;
}

static void ignore(void *arg)
{
    (void)arg;
}

// ---- the listener: an echo --------------------------------------------------------------------

static void echo_data(void *arg, const uint8_t *at, size_t len)
{
    struct talk *talk = arg;
    peer_stream_write(talk->stream, at, len);
    peer_stream_consumed(talk->stream, len);
}

static void echo_end(void *arg)
{
    struct talk *talk = arg;
    peer_stream_end(talk->stream, NULL, 0);
}

static void echo_close(void *arg, uint32_t code, bool whole, bool processed)
{
    (void)code;
    (void)whole;
    (void)processed;
    mem_free(arg);
}

static void on_request(void *arg, struct peer_stream *stream, const struct http_header *fields, size_t count,
                       bool ended)
{
    static const struct peer_stream_events events = {.on_info = ignore_info,
                                                     .on_head = ignore_fields,
                                                     .on_data = echo_data,
                                                     .on_trailers = ignore_trailers,
                                                     .on_half_end = echo_end,
                                                     .on_taken = ignore_taken,
                                                     .on_credit = ignore,
                                                     .on_close = echo_close};
    (void)fields;
    (void)count;
    (void)ended;
    struct talk *talk = mem_zalloc(sizeof *talk);
    talk->side = arg;
    talk->stream = stream;
    peer_stream_bind(stream, &events, talk);
    peer_stream_head(stream, 200, NULL, 0, false);
}

// The pipe goes by itself; which of them it was is of no interest.
static void on_lost(void *arg, const char *reason)
{
    (void)arg;
    (void)reason;
}

static void on_connection(uv_stream_t *listening, int status)
{
    static const struct peer_pipe_events events = {.on_request = on_request, .on_lost = on_lost};
    struct side *listener = listening->data;
    uv_tcp_t *tcp = mem_zalloc(sizeof *tcp);
    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(loop_uv(listener->loop), tcp), 0);
    assert_int_equal(uv_accept(listening, (uv_stream_t *)tcp), 0);
    struct peer_pipe *pipe = peer_pipe_create(&listener->pool, true, 100, &events, listener);
    peer_pipe_attach(pipe, tcp, listener->tls, 5000);
}

static void open_listener(void *arg)
{
    struct side *listener = arg;
    struct sockaddr_in address;
    int len = sizeof address;
    tls_stream_pool_init(&listener->pool.tls, loop_uv(listener->loop));
    listener->listener = mem_zalloc(sizeof *listener->listener);
    uv_tcp_init(loop_uv(listener->loop), listener->listener);
    listener->listener->data = listener;
    uv_ip4_addr("127.0.0.1", 0, &address);
    assert_int_equal(uv_tcp_bind(listener->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)listener->listener, 16, on_connection), 0);
    uv_tcp_getsockname(listener->listener, (struct sockaddr *)&address, &len);
    snprintf(bench.address, sizeof bench.address, "127.0.0.1:%u", ntohs(address.sin_port));
    note(&bench.ready);
}

// ---- the links -----------------------------------------------------------------------------------------------------

static void begin_talk(struct side *side);

static void on_head(void *arg, int status, const struct http_header *fields, size_t count)
{
    ignore_fields(arg, status, fields, count);
    ((struct talk *)arg)->status = status;
}

static void on_data(void *arg, const uint8_t *at, size_t len)
{
    struct talk *talk = arg;
    assert_true(talk->came + len <= BODY_BYTES);
    assert_memory_equal(at, bench.body + talk->came, len);
    talk->came += len;
    peer_stream_consumed(talk->stream, len);
}

static void on_close(void *arg, uint32_t code, bool whole, bool processed)
{
    struct talk *talk = arg;
    (void)code;
    (void)processed;
    note(whole && talk->status == 200 && talk->came == BODY_BYTES ? &bench.done : &bench.failed);
    if (talk->side->begun < EACH) begin_talk(talk->side);
    mem_free(talk);
}

static void begin_talk(struct side *side)
{
    static const struct peer_stream_events events = {.on_info = ignore_info,
                                                     .on_head = on_head,
                                                     .on_data = on_data,
                                                     .on_trailers = ignore_trailers,
                                                     .on_half_end = ignore,
                                                     .on_taken = ignore_taken,
                                                     .on_credit = ignore,
                                                     .on_close = on_close};
    const struct http_header fields[] = {{STR(":method"), STR("POST")},
                                         {STR(":scheme"), STR("https")},
                                         {STR(":authority"), STR("peer")},
                                         {STR(":path"), STR("/")}};
    struct talk *talk = mem_zalloc(sizeof *talk);
    talk->side = side;
    side->begun++;
    struct peer_pipe *pipe = peer_links_get(side->links, bench.address);
    assert_non_null(pipe);
    talk->stream = peer_stream_open(pipe, fields, 4, false, &events, talk);
    assert_non_null(talk->stream);
    peer_stream_write(talk->stream, bench.body, BODY_BYTES);
    peer_stream_end(talk->stream, NULL, 0);
}

static void open_links(void *arg)
{
    struct side *side = arg;
    tls_stream_pool_init(&side->pool.tls, loop_uv(side->loop));
    side->links = peer_links_create(
        side->loop,
        &(struct peer_links_options){.pool = &side->pool, .tls = side->tls, .streams_max = 100, .idle_ms = 60000});
    for (unsigned i = 0; i < AT_ONCE; i++)
        begin_talk(side);
}

struct renewal {
    struct side *side;
    SSL_CTX *tls;
};

static void renew(void *arg)
{
    struct renewal *renewal = arg;
    if (renewal->side->links) {
        peer_links_set_tls(renewal->side->links, renewal->tls);
        peer_links_tick(renewal->side->links, clock_mono_ms());
    }
    SSL_CTX_free(renewal->tls);
    mem_free(renewal);
}

// ---- the end -------------------------------------------------------------------------------------------------------

static void on_pool_closed(void *arg)
{
    struct side *side = arg;
    note(&bench.closed);
    loop_stop(side->loop);
}

static void close_pool(void *arg)
{
    struct side *side = arg;
    side->pool.on_empty = NULL;
    tls_stream_pool_close(&side->pool.tls, on_pool_closed, side);
}

static void on_links_closed(void *arg)
{
    struct side *side = arg;
    side->links = NULL;
    side->pool.on_empty = close_pool;
    side->pool.empty_arg = side;
    if (side->pool.pipes == 0) close_pool(side);
}

static void close_links(void *arg)
{
    struct side *side = arg;
    peer_links_close(side->links, on_links_closed, side);
}

static void free_listener(uv_handle_t *listener)
{
    mem_free(listener);
}

// Its connections end because the links have gone.
static void close_listener(void *arg)
{
    struct side *listener = arg;
    uv_close((uv_handle_t *)listener->listener, free_listener);
    on_links_closed(listener);
}

// ---- certificates --------------------------------------------------------------------------------------------------

static void make_certificate(const char *certificate_file, const char *key_file)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *certificate = X509_new();
    assert_true(key && certificate);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"replica", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:" PEER_TLS_NAME);
    assert_non_null(names);
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    FILE *file = fopen(certificate_file, "w");
    assert_true(file && PEM_write_X509(file, certificate) == 1);
    fclose(file);
    file = fopen(key_file, "w");
    assert_true(file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void what_is_said_comes_back(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    char folder[] = "/tmp/test-peer-XXXXXX";
    assert_non_null(mkdtemp(folder));
    AUTO_FREE char *certificate = mem_printf("%s/certificate.pem", folder);
    AUTO_FREE char *key = mem_printf("%s/key.pem", folder);
    struct peer_tls tls;
    struct error err;
    make_certificate(certificate, key);
    if (peer_tls_init(&tls, certificate, key, certificate, &err) != ERROR_NONE) fail_msg("%s", err.text);
    for (size_t i = 0; i < BODY_BYTES; i++)
        bench.body[i] = (uint8_t)(i * 31 + i / 251);

    bench.listener = (struct side){.loop = loop_create("listener", 0), .tls = tls.listener};
    assert_int_equal(loop_start(bench.listener.loop, &err), ERROR_NONE);
    loop_post(bench.listener.loop, open_listener, &bench.listener);
    wait_until(&bench.ready, 1);
    for (unsigned i = 0; i < LOOPS; i++) {
        struct side *side = &bench.sides[i];
        *side = (struct side){.loop = loop_create("links", i + 1), .tls = tls.link};
        assert_int_equal(loop_start(side->loop, &err), ERROR_NONE);
        loop_post(side->loop, open_links, side);
    }
    for (unsigned i = 0; i < RENEWALS; i++) {
        struct peer_tls again;
        assert_int_equal(peer_tls_init(&again, certificate, key, certificate, &err), ERROR_NONE);
        for (unsigned k = 0; k < LOOPS; k++) {
            struct renewal *renewal = mem_alloc(sizeof *renewal);
            SSL_CTX_up_ref(again.link);
            *renewal = (struct renewal){&bench.sides[k], again.link};
            loop_post(bench.sides[k].loop, renew, renewal);
        }
        peer_tls_finish(&again);
    }
    wait_until(&bench.done, LOOPS * EACH);
    assert_int_equal(bench.failed, 0);

    for (unsigned i = 0; i < LOOPS; i++)
        loop_post(bench.sides[i].loop, close_links, &bench.sides[i]);
    wait_until(&bench.closed, LOOPS);
    loop_post(bench.listener.loop, close_listener, &bench.listener);
    wait_until(&bench.closed, LOOPS + 1);
    for (unsigned i = 0; i < LOOPS; i++) {
        loop_join(bench.sides[i].loop);
        loop_destroy(bench.sides[i].loop);
    }
    loop_join(bench.listener.loop);
    loop_destroy(bench.listener.loop);
    peer_tls_finish(&tls);
    unlink(certificate);
    unlink(key);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_said_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
