// The limits that a session of libnghttp2 is made with hold against a peer that exceeds them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/http2/http2_session.h"

enum { EXTENSION = 0xf0, SETTINGS_MAX = 2, WINDOW_BYTES = 1 << 20 };

static unsigned extensions; // frames that unpack() got

static int unpack(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head, void *arg)
{
    (void)session, (void)payload, (void)head, (void)arg;
    extensions++;
    return NGHTTP2_ERR_CANCEL;
}

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack);
}

static nghttp2_session *make(int extension)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 7}};
    return http2_session_create(&(struct http2_session_options){.is_server = true,
                                                                .set_callbacks = set_callbacks,
                                                                .settings_max = SETTINGS_MAX,
                                                                .extension = extension,
                                                                .settings = settings,
                                                                .setting_count = 1,
                                                                .window_bytes = WINDOW_BYTES});
}

// The client's preface with that many settings. Returns what the session makes of it.
static ssize_t greet(nghttp2_session *session, uint8_t settings)
{
    uint8_t bytes[NGHTTP2_CLIENT_MAGIC_LEN + 9 + 6 * 8] = {0};
    size_t len = NGHTTP2_CLIENT_MAGIC_LEN;
    memcpy(bytes, NGHTTP2_CLIENT_MAGIC, len);
    bytes[len + 2] = (uint8_t)(6 * settings);
    bytes[len + 3] = NGHTTP2_SETTINGS;
    len += 9;
    for (uint8_t i = 0; i < settings; i++)
        bytes[len + 1 + 6u * i] = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    return nghttp2_session_mem_recv(session, bytes, len + 6u * settings);
}

static void send_extension(nghttp2_session *session, uint8_t type)
{
    const uint8_t frame[9] = {0, 0, 0, type};
    assert_int_equal(nghttp2_session_mem_recv(session, frame, sizeof frame), sizeof frame);
}

// libnghttp2 hands out a frame at a time.
static bool sends_goaway(nghttp2_session *session)
{
    const uint8_t *bytes;
    bool is_goaway = false;
    while (nghttp2_session_mem_send(session, &bytes) > 0)
        is_goaway |= bytes[3] == NGHTTP2_GOAWAY;
    return is_goaway;
}

static void test_settings_are_limited(void **state)
{
    (void)state;
    for (uint8_t count = 0; count < 2 * SETTINGS_MAX; count++) {
        nghttp2_session *session = make(0);
        (void)greet(session, count);
        assert_int_equal(sends_goaway(session), count > SETTINGS_MAX);
        nghttp2_session_del(session);
    }
}

static void test_extensions_that_are_taken(void **state)
{
    static const struct {
        int extension;
        unsigned expected; // of one of EXTENSION and one of another type
    } rows[] = {{0, 0}, {EXTENSION, 1}, {HTTP2_EXTENSIONS_ALL, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nghttp2_session *session = make(rows[i].extension);
        extensions = 0;
        assert_true(greet(session, 0) > 0);
        send_extension(session, EXTENSION);
        send_extension(session, EXTENSION + 1);
        assert_int_equal(extensions, rows[i].expected);
        nghttp2_session_del(session);
    }
}

static void test_what_is_announced(void **state)
{
    const uint8_t *bytes;
    (void)state;
    nghttp2_session *session = make(0);
    ssize_t len = nghttp2_session_mem_send(session, &bytes);
    assert_int_equal(len, 9 + 6);
    assert_int_equal(bytes[3], NGHTTP2_SETTINGS);
    assert_int_equal(bytes[14], 7);
    assert_int_equal(nghttp2_session_get_local_window_size(session), WINDOW_BYTES);
    nghttp2_session_del(session);
}

static void test_a_field_without_a_value(void **state)
{
    (void)state;
    nghttp2_nv field = http2_field(STR("te"), STR_EMPTY);
    assert_int_equal(field.namelen, 2);
    assert_int_equal(field.valuelen, 0);
    assert_non_null(field.value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_are_limited),
        cmocka_unit_test(test_extensions_that_are_taken),
        cmocka_unit_test(test_what_is_announced),
        cmocka_unit_test(test_a_field_without_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
