// A call on its way to another replica: what is kept of its body, and when it is sent again. The link, its stream, the
// registry and the broker's node are this file's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/peer/peer_calls.h"
#include "server/peer/peer_links.h"
#include "server/peer/peer_stream.h"
#include "server/peer/peer_wire.h"

enum { BODY_BYTES = 40 * 1024, LARGE_BYTES = 60 * 1024 };

// ---- the other side --------------------------------------------------------------------------------------------

static struct {
    unsigned opened, resets;
    const struct peer_stream_events *events; // of the stream that is open
    void *arg;
    size_t written;
    bool ended;
    uint64_t epoch; // that the registry knows
} far;

struct peer_pipe *peer_links_get(struct peer_links *links, const char *address)
{
    (void)links;
    assert_string_equal(address, "127.0.0.1:1");
    return (struct peer_pipe *)&far;
}

struct peer_stream *peer_stream_open(struct peer_pipe *pipe, const struct http_header *fields, size_t count, bool ended,
                                     const struct peer_stream_events *events, void *arg)
{
    (void)fields;
    (void)count;
    assert_false(ended);
    far.opened++;
    far.events = events;
    far.arg = arg;
    far.written = 0;
    far.ended = false;
    return (struct peer_stream *)pipe;
}

void peer_stream_write(struct peer_stream *stream, const void *at, size_t len)
{
    (void)stream;
    (void)at;
    far.written += len;
}

void peer_stream_end(struct peer_stream *stream, const struct http_header *trailers, size_t count)
{
    (void)stream;
    (void)trailers;
    (void)count;
    far.ended = true;
}

void peer_stream_consumed(struct peer_stream *stream, size_t len)
{
    (void)stream;
    (void)len;
}

void peer_stream_reset(struct peer_stream *stream, uint32_t code)
{
    (void)stream;
    (void)code;
    far.resets++;
}

struct registry_query *registry_ask(struct registry *registry, const struct runtime_key *key, bool fresh,
                                    struct registry_answer *out, registry_done on_done, void *arg)
{
    (void)registry;
    (void)key;
    (void)fresh;
    (void)on_done;
    (void)arg;
    *out = (struct registry_answer){.known = REGISTRY_HELD,
                                    .place = {.epoch = far.epoch, .replica = "other", .address = "127.0.0.1:1"}};
    return NULL;
}

bool registry_peek(struct registry *registry, const struct runtime_key *key, struct registry_place *out)
{
    (void)registry;
    (void)key;
    (void)out;
    return false;
}

void registry_query_cancel(struct registry_query *query)
{
    (void)query;
}

void registry_doubt(struct registry *registry, const struct runtime_key *key, uint64_t epoch)
{
    (void)registry;
    (void)key;
    (void)epoch;
}

bool tunnel_node_has_runtime(struct tunnel_node *node, const struct runtime_key *key)
{
    (void)node;
    (void)key;
    return false;
}

// ---- the caller ------------------------------------------------------------------------------------------------

static struct {
    int status;
    size_t taken;
    unsigned remote_ends, ends;
    enum tunnel_cause cause;
} told;

static void on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    (void)arg;
    (void)headers;
    (void)count;
    told.status = status;
}

static void on_taken(void *arg, size_t len)
{
    (void)arg;
    told.taken += len;
}

static void on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    (void)arg;
    (void)detail;
    told.cause = cause;
}

static void on_half_end(void *arg)
{
    (void)arg;
    told.remote_ends++;
}

static void on_end(void *arg)
{
    (void)arg;
    told.ends++;
}

static const struct exchange_events exchange_events = {
    .on_head = on_head, .on_half_end = on_half_end, .on_taken = on_taken, .on_end = on_end, .on_fail = on_fail};
static const struct tunnel_carrier_events events = {.exchange = &exchange_events};

struct fixture {
    struct loop *loop;
    struct peer_calls *calls;
    struct tunnel_carried *call;
    bool closed;
};

static void turn(struct fixture *f)
{
    for (int i = 0; i < 3; i++)
        uv_run(loop_uv(f->loop), UV_RUN_NOWAIT);
}

static int set_up_call(void **state, struct str method, struct str protocol)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    memset(&far, 0, sizeof far);
    memset(&told, 0, sizeof told);
    far.epoch = 1;
    f->loop = loop_create("test", 0);
    f->calls = peer_calls_create(f->loop, &(struct peer_calls_options){
                                              .registry = (struct registry *)&far,
                                              .links = (struct peer_links *)&far,
                                              .replica = "here",
                                          });
    const struct tunnel_request request = {.account_id = STR("0123456789abcdef01234567"),
                                           .runtime = STR("prod"),
                                           .method = method,
                                           .protocol = protocol,
                                           .path = STR("/services/x/")};
    f->call = peer_calls_open(f->calls, NULL, &request, &events, f);
    turn(f);
    assert_int_equal(far.opened, 1);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_call(state, STR("POST"), STR_EMPTY);
}

static int set_up_upgrade(void **state)
{
    return set_up_call(state, STR("CONNECT"), STR("connect-tcp"));
}

static void on_closed(void *arg)
{
    ((struct fixture *)arg)->closed = true;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (told.cause == TUNNEL_CAUSE_NONE && !told.ends) peer_calls_cancel(f->call);
    peer_calls_close(f->calls, on_closed, f);
    while (!f->closed)
        uv_run(loop_uv(f->loop), UV_RUN_NOWAIT);
    loop_destroy(f->loop);
    mem_free(f);
    return 0;
}

static void write_body(struct fixture *f, size_t bytes, bool ends)
{
    char *body = mem_zalloc(bytes);
    peer_calls_write(f->call, body, bytes);
    mem_free(body);
    if (ends) peer_calls_end(f->call, NULL, 0);
    far.events->on_taken(far.arg, bytes);
    far.events->on_credit(far.arg);
    turn(f);
}

// The owner's answer that it has no such session.
static void misdirect(struct fixture *f)
{
    struct http_header fields[PEER_WIRE_FAIL_FIELDS];
    char text[PEER_WIRE_DETAIL_BYTES];
    size_t count;
    far.epoch = 2; // it has moved
    int status = peer_wire_fail_encode(TUNNEL_CAUSE_NO_TUNNEL, "not here", text, fields, &count);
    far.events->on_head(far.arg, status, fields, count);
    turn(f);
}

static void test_a_whole_body_goes_again_although_some_was_passed_on(void **state)
{
    struct fixture *f = *state;
    write_body(f, BODY_BYTES, true);
    assert_int_equal(told.taken, 0);
    misdirect(f);
    assert_int_equal(told.cause, TUNNEL_CAUSE_NONE);
    assert_int_equal(far.opened, 2);
    assert_int_equal(far.written, BODY_BYTES);
    assert_true(far.ended);
    far.events->on_head(far.arg, 200, NULL, 0);
    assert_int_equal(told.status, 200);
}

static void test_a_small_part_goes_again(void **state)
{
    struct fixture *f = *state;
    write_body(f, BODY_BYTES, false);
    misdirect(f);
    assert_int_equal(far.opened, 2);
    assert_int_equal(far.written, BODY_BYTES);
    assert_false(far.ended);
}

// Its writer must go on some time: what it wrote is let go of, and then there is no other try.
static void test_a_body_that_must_go_on_is_let_go_of(void **state)
{
    struct fixture *f = *state;
    write_body(f, LARGE_BYTES, false);
    assert_int_equal(told.taken, LARGE_BYTES);
    misdirect(f);
    assert_int_equal(told.cause, TUNNEL_CAUSE_NO_TUNNEL);
    assert_int_equal(far.opened, 1);
}

// Also when the credit came before there was too much.
static void test_later_bytes_let_go_of_it(void **state)
{
    struct fixture *f = *state;
    write_body(f, BODY_BYTES, false);
    assert_int_equal(told.taken, 0);
    char more[20 * 1024] = {0};
    peer_calls_write(f->call, more, sizeof more);
    assert_int_equal(told.taken, 0); // not inside of the write
    turn(f);
    assert_int_equal(told.taken, BODY_BYTES);
}

// The halves of an upgraded connection end each on its own; of an ordinary call only the end of both is told.
static void test_the_far_half_of_an_upgraded_connection_ends_first(void **state)
{
    struct fixture *f = *state;
    far.events->on_head(far.arg, 200, NULL, 0);
    far.events->on_half_end(far.arg);
    assert_int_equal(told.remote_ends, 1);
    assert_int_equal(told.ends, 0);
    write_body(f, BODY_BYTES, true);
    assert_true(far.ended && far.written == BODY_BYTES);
    far.events->on_close(far.arg, 0, true, true);
    assert_int_equal(told.ends, 1);
}

static void test_a_complete_answer_is_told_by_its_end(void **state)
{
    (void)state;
    far.events->on_head(far.arg, 200, NULL, 0);
    far.events->on_half_end(far.arg);
    assert_int_equal(told.remote_ends, 0);
    far.events->on_close(far.arg, 0, true, true);
    assert_int_equal(told.ends, 1);
}

static void test_a_refused_upgrade_is_an_ordinary_answer(void **state)
{
    (void)state;
    far.events->on_head(far.arg, 502, NULL, 0);
    far.events->on_half_end(far.arg);
    assert_int_equal(told.remote_ends, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_whole_body_goes_again_although_some_was_passed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_small_part_goes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_that_must_go_on_is_let_go_of, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_later_bytes_let_go_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_far_half_of_an_upgraded_connection_ends_first, set_up_upgrade,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_complete_answer_is_told_by_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_upgrade_is_an_ordinary_answer, set_up_upgrade, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
