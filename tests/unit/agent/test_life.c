#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tunnel/life.h"

enum { ROUNDS = 400, ROUND_MS = 200000, PLATFORM_ASKS_MS = 10000, PATH_NOTICED_MS = 15000, HANG_NOTICED_MS = 34000 };

// A platform behind a path, by a clock of its own. Everything takes delay_ms one way.
struct model {
    struct agent_life life;
    struct agent_life_socket socket;
    uint64_t now_ms, next_ms, delay_ms;
    uint64_t answer_at_ms, taken_at_ms; // on their way; 0: nothing
    uint64_t hangs_at_ms, cut_at_ms;    // the platform stands still, but its kernel does not; nothing passes
    uint64_t heard_by_platform_ms;
    unsigned said, asked;
};

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % limit;
}

static void say(struct model *m, bool wants_answer)
{
    m->socket.sent_bytes += 8;
    agent_life_said(&m->life, m->now_ms);
    if (m->now_ms + m->delay_ms >= m->cut_at_ms) return;
    m->heard_by_platform_ms = m->now_ms;
    m->taken_at_ms = m->now_ms + 2 * m->delay_ms + 1;
    if (wants_answer && m->now_ms + m->delay_ms < m->hangs_at_ms) m->answer_at_ms = m->now_ms + 2 * m->delay_ms + 1;
}

static enum agent_life_step look(struct model *m)
{
    enum agent_life_step step = agent_life_look(&m->life, &m->socket, m->now_ms, &m->next_ms);
    if (step == AGENT_LIFE_SILENT || step == AGENT_LIFE_CUT) return step;
    assert_true(m->next_ms > m->now_ms && m->next_ms <= m->now_ms + AGENT_LIFE_ASK_AFTER_MS);
    m->said += step == AGENT_LIFE_SAY;
    m->asked += step == AGENT_LIFE_ASK;
    if (step != AGENT_LIFE_WAIT) say(m, step == AGENT_LIFE_ASK);
    return step;
}

// A millisecond. Looks when it was told to, late by up to 20 ms.
static enum agent_life_step step(struct model *m)
{
    m->now_ms++;
    if (m->answer_at_ms && m->now_ms >= m->answer_at_ms) {
        if (m->now_ms < m->cut_at_ms) agent_life_heard(&m->life, m->now_ms);
        m->answer_at_ms = 0;
    }
    if (m->taken_at_ms && m->now_ms >= m->taken_at_ms) {
        if (m->now_ms < m->cut_at_ms) m->socket.taken_bytes = m->socket.sent_bytes;
        m->taken_at_ms = 0;
    }
    return m->now_ms >= m->next_ms + random_below(20) ? look(m) : AGENT_LIFE_WAIT;
}

static void start(struct model *m)
{
    *m = (struct model){
        .now_ms = 1000000, .delay_ms = random_below(800), .hangs_at_ms = UINT64_MAX, .cut_at_ms = UINT64_MAX};
    agent_life_init(&m->life, m->now_ms);
    agent_life_asked(&m->life, m->now_ms);
    say(m, true);
    m->next_ms = m->now_ms + AGENT_LIFE_DEAD_AFTER_MS;
}

static void test_a_quiet_platform_hears_enough_and_is_never_given_up(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        start(&m);
        for (uint64_t end_ms = m.now_ms + ROUND_MS; m.now_ms < end_ms;) {
            enum agent_life_step done = step(&m);
            assert_true(done != AGENT_LIFE_SILENT && done != AGENT_LIFE_CUT);
            assert_true(m.now_ms - m.heard_by_platform_ms < PLATFORM_ASKS_MS - 400);
            if (random_below(20000) == 0) agent_life_heard(&m.life, m.now_ms); // somebody's call
            if (random_below(20000) == 0) say(&m, false);                      // a report
        }
        assert_true(m.said + m.asked <= ROUND_MS / AGENT_LIFE_SAY_AFTER_MS + 1);
        assert_true(m.asked <= ROUND_MS / (AGENT_LIFE_ASK_AFTER_MS - 3000) + 1); // most words want no answer
    }
}

static uint64_t until_given_up(struct model *m, uint64_t since_ms, enum agent_life_step *out_step)
{
    do {
        *out_step = step(m);
        assert_true(m->now_ms < since_ms + ROUND_MS);
    } while (*out_step != AGENT_LIFE_SILENT && *out_step != AGENT_LIFE_CUT);
    return m->now_ms - since_ms;
}

static void test_a_path_that_is_cut_is_noticed(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        enum agent_life_step how;
        start(&m);
        m.cut_at_ms = m.now_ms + 2000 + random_below(100000);
        while (m.now_ms < m.cut_at_ms)
            assert_true(step(&m) <= AGENT_LIFE_ASK);
        assert_in_range(until_given_up(&m, m.cut_at_ms, &how), 0, PATH_NOTICED_MS + 2 * m.delay_ms + 40);
    }
}

static void test_a_platform_that_stands_still_is_noticed(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        enum agent_life_step how;
        start(&m);
        m.hangs_at_ms = m.now_ms + 2000 + random_below(100000);
        while (m.now_ms < m.hangs_at_ms)
            assert_true(step(&m) <= AGENT_LIFE_ASK);
        assert_in_range(until_given_up(&m, m.hangs_at_ms, &how), 0, HANG_NOTICED_MS + 2 * m.delay_ms + 40);
        assert_int_equal(how, AGENT_LIFE_SILENT); // its kernel took everything
    }
}

static void test_an_answer_behind_a_backlog_may_be_late(void **state)
{
    (void)state;
    struct agent_life life;
    struct agent_life_socket socket = {.sent_bytes = 1000000, .backlog = true};
    uint64_t now_ms = 1000, next_ms;
    agent_life_init(&life, now_ms);
    agent_life_asked(&life, ++now_ms);
    for (unsigned i = 0; i < 20; i++) { // it takes a little each time
        now_ms += AGENT_LIFE_DEAD_AFTER_MS;
        socket.taken_bytes += 1000;
        assert_true(agent_life_look(&life, &socket, now_ms, &next_ms) <= AGENT_LIFE_SAY);
        assert_true(next_ms > now_ms);
    }
    now_ms += AGENT_LIFE_DEAD_AFTER_MS; // and then nothing
    assert_int_equal(agent_life_look(&life, &socket, now_ms, &next_ms), AGENT_LIFE_SILENT);
}

static void test_no_room_at_the_other_end_is_no_cut(void **state)
{
    (void)state;
    struct agent_life life;
    struct agent_life_socket socket = {.sent_bytes = 1000000, .taken_bytes = 5000, .backlog = true};
    uint64_t now_ms = 1000, next_ms;
    agent_life_init(&life, now_ms);
    (void)agent_life_look(&life, &socket, now_ms, &next_ms);
    assert_true(agent_life_look(&life, &socket, now_ms + 7000, &next_ms) <= AGENT_LIFE_SAY);
    socket.backlog = false; // all of it was sent, and nobody acknowledges
    assert_int_equal(agent_life_look(&life, &socket, now_ms + 7001, &next_ms), AGENT_LIFE_CUT);
}

int main(void)
{
    const char *text = getenv("CULVERT_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 10) : (uint64_t)(uintptr_t)&text;
    printf("CULVERT_TEST_SEED=%llu\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quiet_platform_hears_enough_and_is_never_given_up),
        cmocka_unit_test(test_a_path_that_is_cut_is_noticed),
        cmocka_unit_test(test_a_platform_that_stands_still_is_noticed),
        cmocka_unit_test(test_an_answer_behind_a_backlog_may_be_late),
        cmocka_unit_test(test_no_room_at_the_other_end_is_no_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
