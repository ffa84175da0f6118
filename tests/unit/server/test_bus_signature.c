// Messages in RabbitMQ: a signature holds for its body, shard, exchange and deployment alone; where
// RabbitMQ is and with which credential: none is assumed, and none crosses a network in the clear.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/bus/amqp_address.h"
#include "server/bus/amqp_shard.h"
#include "server/bus/bus_signature.h"

static const struct purpose_key ours = {.bytes = {{1}, {2}}, .count = 2}, previous = {.bytes = {{2}}, .count = 1},
                                theirs = {.bytes = {{3}}, .count = 1};

static void a_signature_holds_for_its_message_alone(void **state)
{
    (void)state;
    struct str exchange = STR("culvert.reports"), body = STR("CVB and so on");
    char text[BUS_SIGNATURE_TEXT_BYTES];
    bus_signature_make(&ours, exchange, 3, body, text);
    struct str signature = str_c(text);
    assert_true(bus_signature_is_good(&ours, exchange, 3, body, signature));
    assert_false(bus_signature_is_good(&theirs, exchange, 3, body, signature));
    assert_false(bus_signature_is_good(&ours, STR("other.reports"), 3, body, signature));
    assert_false(bus_signature_is_good(&ours, exchange, 4, body, signature));
    assert_false(bus_signature_is_good(&ours, exchange, 3, STR("CVB and so of"), signature));
    assert_false(bus_signature_is_good(&ours, exchange, 3, STR_EMPTY, signature));
    assert_false(bus_signature_is_good(&ours, exchange, 3, body, STR_EMPTY));
    for (size_t i = 0; i < signature.len; i++) {
        char was = text[i];
        assert_false(bus_signature_is_good(&ours, exchange, 3, body, str_first(signature, i)));
        text[i] = was == '0' ? '1' : '0';
        assert_false(bus_signature_is_good(&ours, exchange, 3, body, signature));
        text[i] = was;
    }
    bus_signature_make(&previous, exchange, 3, body, text);
    assert_true(bus_signature_is_good(&ours, exchange, 3, body, signature));
}

static void assert_delivered(amqp_table_entry_t entry, int count, const char *expected)
{
    amqp_message_t message = {.body = amqp_cstring_bytes("body")};
    message.properties._flags = AMQP_BASIC_HEADERS_FLAG;
    message.properties.headers = (amqp_table_t){count, &entry};
    struct amqp_delivery *delivery = amqp_delivery_create(&message);
    assert_true(str_eq(amqp_delivery_signature(delivery), str_c(expected)));
    mem_free(delivery);
}

static void only_a_text_of_the_right_length_is_a_signature(void **state)
{
    (void)state;
    char text[BUS_SIGNATURE_TEXT_BYTES + 1];
    memset(text, 'a', sizeof text);
    text[BUS_SIGNATURE_TEXT_BYTES] = '\0';
    amqp_table_entry_t entry = {amqp_cstring_bytes(BUS_SIGNATURE_HEADER), {.kind = AMQP_FIELD_KIND_UTF8}};
    assert_delivered(entry, 0, "");
    entry.value.value.bytes = amqp_cstring_bytes(text); // one too long: wrong, not missing
    assert_delivered(entry, 1, "?");
    entry.value.value.bytes = amqp_empty_bytes;
    assert_delivered(entry, 1, "?");
    text[BUS_SIGNATURE_TEXT_BYTES - 1] = '\0';
    entry.value.value.bytes = amqp_cstring_bytes(text);
    assert_delivered(entry, 1, text);
    entry.value.kind = AMQP_FIELD_KIND_I64;
    assert_delivered(entry, 1, "?");
}

static void credentials_are_needed_and_kept_from_the_network(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool plaintext, fine;
        const char *word;
    } cases[] = {
        {"amqps://culvert:x@rabbit.example/", false, true, ""},
        {"amqp://culvert:x@localhost/", false, true, ""},
        {"amqp://culvert:x@127.0.0.1,127.9.9.9,[::1]:5673/", false, true, ""},
        {"amqp://culvert:x@rabbit.example/", true, true, ""},
        {"amqp://guest:x@localhost/", false, true, ""},
        {"amqp://localhost/", false, false, "user"},
        {"amqps://rabbit.example", false, false, "user"},
        {"amqps://culvert@rabbit.example", false, false, "password"},
        {"amqps://culvert:@rabbit.example", false, false, "password"},
        {"amqps://:x@rabbit.example", false, false, "user"},
        {"amqps://guest:guest@rabbit.example", false, false, "guest"},
        {"amqp://gues%74:guest@localhost", true, false, "guest"},
        {"amqp://culvert:x@rabbit.example/", false, false, "amqps"},
        {"amqp://culvert:x@localhost,rabbit.example/", false, false, "host 2"},
        {"amqp://culvert:x@localhost.example/", false, false, "amqps"},
        {"amqp://culvert:x@127.example.com/", false, false, "amqps"},
        {"amqp://culvert:x@128.0.0.1/", false, false, "amqps"},
        {"amqp://culvert:x@[::2]/", false, false, "amqps"},
        {"amqp://culvert:x@0.0.0.0/", false, false, "amqps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct amqp_address address;
        struct error err = {0};
        enum error_code code = amqp_address_init(&address, cases[i].url, NULL, cases[i].plaintext, &err);
        if ((code == ERROR_NONE) != cases[i].fine || (code != ERROR_NONE && !strstr(err.text, cases[i].word)))
            fail_msg("%s: %s", cases[i].url, err.text);
        if (code == ERROR_NONE) amqp_address_finish(&address);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_holds_for_its_message_alone),
        cmocka_unit_test(only_a_text_of_the_right_length_is_a_signature),
        cmocka_unit_test(credentials_are_needed_and_kept_from_the_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
