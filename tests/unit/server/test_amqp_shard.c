// amqp_shard: messages go to loops in their order, but those that came back too often go alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/bus/amqp_shard.h"

static struct amqp_delivery *make(uint64_t tag, int64_t returns)
{
    amqp_table_entry_t entry = {amqp_cstring_bytes("x-delivery-count"),
                                {.kind = AMQP_FIELD_KIND_I64, .value.i64 = returns}};
    amqp_message_t message = {.body = amqp_cstring_bytes("body")};
    if (returns) {
        message.properties._flags = AMQP_BASIC_HEADERS_FLAG;
        message.properties.headers = (amqp_table_t){1, &entry};
    }
    struct amqp_delivery *delivery = amqp_delivery_create(&message);
    delivery->tag = tag;
    assert_int_equal(delivery->returns, returns > 0 ? returns : 0);
    assert_memory_equal(delivery->body, "body", delivery->len);
    return delivery;
}

// The tags that may go now, as digits.
static const char *hand_over(struct amqp_shard *shard)
{
    static char tags[16];
    size_t count = 0;
    for (struct amqp_delivery *delivery; (delivery = amqp_shard_hand_over(shard));)
        tags[count++] = (char)('0' + delivery->tag);
    tags[count] = '\0';
    return tags;
}

static void give_back(struct amqp_shard *shard)
{
    assert_false(amqp_shard_has_done(shard));
    shard->first->state = AMQP_DELIVERY_APPLIED;
    assert_true(amqp_shard_has_done(shard));
    mem_free(amqp_shard_pop(shard));
}

static void messages_keep_their_order(void **state)
{
    (void)state;
    struct amqp_shard shard;
    amqp_shard_init(&shard);
    assert_string_equal(hand_over(&shard), "");
    for (uint64_t tag = 1; tag <= 3; tag++)
        amqp_shard_add(&shard, make(tag, tag == 2 ? 1 : 0)); // once is no suspicion
    assert_true(shard.first->is_head && !shard.first->next->is_head);
    assert_false(amqp_shard_is_at_work(&shard));
    assert_string_equal(hand_over(&shard), "123");
    assert_true(amqp_shard_is_at_work(&shard));
    // One behind that is done first waits for those before it.
    shard.first->next->state = AMQP_DELIVERY_APPLIED;
    assert_false(amqp_shard_has_done(&shard));
    give_back(&shard);
    assert_true(amqp_shard_has_done(&shard));
    mem_free(amqp_shard_pop(&shard));
    give_back(&shard);
    amqp_shard_add(&shard, make(4, 0));
    assert_string_equal(hand_over(&shard), "4");
    give_back(&shard);
    assert_false(amqp_shard_is_at_work(&shard));
}

static void suspects_go_alone(void **state)
{
    (void)state;
    struct amqp_shard shard;
    amqp_shard_init(&shard);
    amqp_shard_add(&shard, make(1, -3)); // nonsense
    amqp_shard_add(&shard, make(2, 2));
    amqp_shard_add(&shard, make(3, 0));
    assert_string_equal(hand_over(&shard), "1");
    assert_string_equal(hand_over(&shard), "");
    give_back(&shard);
    assert_string_equal(hand_over(&shard), "2");
    amqp_shard_add(&shard, make(4, 0));
    assert_string_equal(hand_over(&shard), "");
    give_back(&shard);
    assert_string_equal(hand_over(&shard), "34");
    give_back(&shard);
    give_back(&shard);
}

static void a_connection_ends(void **state)
{
    (void)state;
    struct amqp_shard shard;
    amqp_shard_init(&shard);
    amqp_shard_add(&shard, make(1, 0));
    amqp_shard_add(&shard, make(2, 5));
    assert_string_equal(hand_over(&shard), "1");
    struct amqp_delivery *with_a_loop = amqp_shard_forget(&shard), *waits = amqp_shard_forget(&shard);
    assert_int_equal(with_a_loop->state, AMQP_DELIVERY_WITH_A_LOOP);
    assert_int_equal(waits->state, AMQP_DELIVERY_WAITS);
    assert_null(amqp_shard_forget(&shard));
    mem_free(with_a_loop);
    mem_free(waits);
    // On the next one they come again, the first of them at the head.
    amqp_shard_add(&shard, make(1, 6));
    assert_true(shard.first->is_head);
    assert_string_equal(hand_over(&shard), "1");
    give_back(&shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_keep_their_order), cmocka_unit_test(suspects_go_alone),
                                       cmocka_unit_test(a_connection_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
