// Answers share one link: an agent's session whose streams never run dry, and an HTTP/2 client that
// counts what it gets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "agent/tunnel/session.h"
#include "base/mem.h"

enum { STREAMS_MAX = 16384, WINDOW = 0x7fffffff, PIECE_BYTES = 48 * 1024, SMALL_BYTES = 1000 };

struct answer {
    bool endless;
};

struct rig {
    struct agent_session *agent;
    nghttp2_session *client;
    uint64_t got[STREAMS_MAX];
    bool closed[STREAMS_MAX];
    uint64_t total;
};

// ---- the agent's side: /bulk never ends, /small is one piece ---------------------------------------------------

static void fill(struct agent_stream *stream)
{
    static const char piece[PIECE_BYTES];
    while (agent_stream_write(stream, piece, sizeof(piece)))
        continue;
}

static void on_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    (void)arg;
    (void)at;
    agent_stream_consumed(stream, len);
}

static void on_end(void *arg, struct agent_stream *stream)
{
    (void)arg;
    (void)stream;
}

static void on_room(void *arg, struct agent_stream *stream)
{
    const struct answer *answer = arg;
    if (answer->endless) fill(stream);
}

static void on_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    (void)stream;
    (void)code;
    mem_free(arg);
}

static void on_request(void *arg, struct agent_stream *stream)
{
    static const struct agent_stream_events events = {on_data, on_end, on_room, on_close};
    static const char small[SMALL_BYTES];
    struct answer *answer = mem_zalloc(sizeof(*answer));
    (void)arg;
    answer->endless = str_eq(agent_stream_request(stream)->path, STR("/bulk"));
    agent_stream_attach(stream, &events, answer);
    agent_stream_respond(stream, 200, NULL, 0, false);
    if (answer->endless) {
        fill(stream);
        return;
    }
    agent_stream_write(stream, small, sizeof(small));
    agent_stream_end(stream, NULL, 0);
}

static void on_wants_write(void *arg)
{
    (void)arg;
}

// ---- the client's ----------------------------------------------------------------------------------------------

static int on_client_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *at, size_t len, void *arg)
{
    struct rig *rig = arg;
    (void)h2;
    (void)flags;
    (void)at;
    rig->got[id] += len;
    rig->total += len;
    return 0;
}

static int on_client_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct rig *rig = arg;
    (void)h2;
    (void)code;
    rig->closed[id] = true;
    return 0;
}

static void to_agent(struct rig *rig)
{
    const uint8_t *at;
    struct error err = {0};
    for (ssize_t n; (n = nghttp2_session_mem_send(rig->client, &at)) > 0;)
        if (agent_session_feed(rig->agent, at, (size_t)n, &err)) fail_msg("%s", err.text);
}

// One message from the agent.
static size_t take(struct rig *rig)
{
    static uint8_t message[AGENT_SESSION_TAKE_BYTES];
    to_agent(rig);
    size_t n = agent_session_take(rig->agent, message, sizeof(message));
    if (n) assert_int_equal(nghttp2_session_mem_recv(rig->client, message, n), n);
    return n;
}

static int32_t submit(struct rig *rig, const char *method, const char *path)
{
    const struct {
        const char *name, *value;
    } fields[] = {{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path}};
    nghttp2_nv nv[4];
    for (size_t i = 0; i < 4; i++)
        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)fields[i].name, (uint8_t *)(uintptr_t)fields[i].value,
                             strlen(fields[i].name), strlen(fields[i].value), NGHTTP2_NV_FLAG_NONE};
    int32_t id = nghttp2_submit_request(rig->client, NULL, nv, 4, NULL, NULL);
    assert_in_range(id, 1, STREAMS_MAX - 1);
    return id;
}

static struct rig *rig_create(uint32_t window)
{
    static const struct agent_session_events events = {.on_request = on_request, .on_wants_write = on_wants_write};
    const struct agent_session_options options = {.streams_max = 1000, .buffered_bytes_max = 8 << 20};
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    struct rig *rig = mem_zalloc(sizeof(*rig));
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    rig->agent = agent_session_create(&options, &events, rig);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_client_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_client_close);
    assert_int_equal(nghttp2_session_client_new2(&rig->client, callbacks, rig, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_submit_settings(rig->client, NGHTTP2_FLAG_NONE, settings, 1);
    nghttp2_session_set_local_window_size(rig->client, NGHTTP2_FLAG_NONE, 0, WINDOW);
    while (take(rig))
        continue;
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    agent_session_destroy(rig->agent);
    nghttp2_session_del(rig->client);
    mem_free(rig);
}

// ---- tests -----------------------------------------------------------------------------------------------------

static void test_small_goes_before_bulk(void **state)
{
    (void)state;
    struct rig *rig = rig_create(WINDOW);
    for (int i = 0; i < 4; i++)
        submit(rig, "GET", "/bulk");
    for (int i = 0; i < 200; i++)
        assert_true(take(rig) > 0);
    for (int i = 0; i < 20; i++) {
        int32_t get = submit(rig, "GET", "/small"), post = submit(rig, "POST", "/small");
        take(rig); // the very next message brings both
        assert_true(rig->closed[get]);
        assert_true(rig->closed[post]);
        assert_int_equal(rig->got[get], SMALL_BYTES);
    }
    rig_destroy(rig);
}

static void test_bulk_streams_share_evenly(void **state)
{
    (void)state;
    struct rig *rig = rig_create(WINDOW);
    int32_t id[5];
    for (int i = 0; i < 5; i++)
        id[i] = submit(rig, i % 2 ? "GET" : "POST", "/bulk");
    for (int i = 0; i < 400; i++) // more than a MiB each: all are bulk now
        take(rig);
    uint64_t before[5];
    for (int i = 0; i < 5; i++)
        before[i] = rig->got[id[i]];
    for (int i = 0; i < 500; i++)
        take(rig);
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t got = rig->got[id[i]] - before[i];
        least = got < least ? got : least;
        most = got > most ? got : most;
    }
    assert_true(least > 5 * 1024 * 1024);
    assert_true(most - least <= 2 * 16384);
    rig_destroy(rig);
}

static void test_bulk_is_not_starved(void **state)
{
    (void)state;
    struct rig *rig = rig_create(WINDOW);
    int32_t bulk = submit(rig, "GET", "/bulk");
    for (int i = 0; i < 100; i++)
        take(rig);
    uint64_t bulk_before = rig->got[bulk], total_before = rig->total;
    for (int i = 0; i < 30; i++) {
        for (int j = 0; j < 100; j++) // always more than a message of small ones
            submit(rig, "GET", "/small");
        take(rig);
    }
    uint64_t bulk_got = rig->got[bulk] - bulk_before, total = rig->total - total_before;
    assert_true(bulk_got * 12 >= total); // a tenth, but for the last round
    assert_true(bulk_got * 3 <= total);  // and no more than its share while others wait
    rig_destroy(rig);
}

static void test_no_credit_stops_nobody_else(void **state)
{
    (void)state;
    struct rig *rig = rig_create(65536); // and nothing is ever given back
    int32_t id[3];
    for (int i = 0; i < 3; i++)
        id[i] = submit(rig, "GET", "/bulk");
    for (int i = 0; i < 20; i++)
        take(rig);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig->got[id[i]], 65536);
    assert_int_equal(take(rig), 0);
    int32_t small = submit(rig, "GET", "/small");
    take(rig);
    assert_true(rig->closed[small]);
    nghttp2_submit_window_update(rig->client, NGHTTP2_FLAG_NONE, id[1], 5000);
    take(rig);
    take(rig);
    assert_int_equal(rig->got[id[1]], 65536 + 5000);
    assert_int_equal(rig->got[id[0]], 65536);
    rig_destroy(rig);
}

static void test_reset_while_it_waits(void **state)
{
    (void)state;
    struct rig *rig = rig_create(WINDOW);
    int32_t id[8];
    for (int i = 0; i < 8; i++)
        id[i] = submit(rig, "GET", "/bulk");
    take(rig);
    for (int i = 0; i < 7; i++)
        nghttp2_submit_rst_stream(rig->client, NGHTTP2_FLAG_NONE, id[i], NGHTTP2_CANCEL);
    to_agent(rig);
    assert_int_equal(agent_session_stream_count(rig->agent), 1);
    uint64_t before = rig->got[id[7]];
    take(rig);
    assert_true(rig->got[id[7]] > before + 48 * 1024);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_goes_before_bulk), cmocka_unit_test(test_bulk_streams_share_evenly),
        cmocka_unit_test(test_bulk_is_not_starved),    cmocka_unit_test(test_no_credit_stops_nobody_else),
        cmocka_unit_test(test_reset_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
