// Both ends of a tunnel by a clock of their own: who speaks when, and who is given up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>

#include "agent/tunnel/life.h"
#include "tunnel/session/life.h"

enum {
    ROUNDS = 50,
    ROUND_MS = 280000, // less than TUNNEL_LIFE_QUIET_ASK_MS: nobody asks to measure
    PING_AFTER_MS = 10000,
    DEAD_AFTER_MS = 5000,
    SAY_AFTER_MS = 28500,
    TICK_MS = 250,
    DELAY_MS_MAX = 60,
    LATE_MS_MAX = 20,
    NEVER = -1,
};

static const struct tunnel_life_rules rules = {PING_AFTER_MS, DEAD_AFTER_MS, SAY_AFTER_MS, TICK_MS};

struct way {
    int64_t word_ms, question_ms, answer_ms; // when it arrives; NEVER: nothing is under way
};

struct model {
    uint64_t now_ms, delay_ms, cut_ms;
    // The platform: what its kernel took, what it knows of that, and when it looks.
    struct tunnel_life platform;
    uint64_t kernel_ms, said_ms, due_ms, tick_ms;
    bool hangs, says_words;
    struct way to_platform;
    // The agent.
    struct agent_life agent;
    struct agent_life_socket socket;
    uint64_t look_ms;
    struct way to_agent;
    bool answers_only;                                         // it never speaks first
    unsigned said, asked, words, agent_words, agent_questions; // by the platform, by the agent
    bool dead, given_up;
};

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % limit;
}

static bool arrives(const struct model *m, int64_t *at_ms)
{
    if (*at_ms == NEVER || (uint64_t)*at_ms > m->now_ms) return false;
    *at_ms = NEVER;
    return m->now_ms < m->cut_ms;
}

static void send(const struct model *m, int64_t *at_ms)
{
    if (m->now_ms < m->cut_ms) *at_ms = (int64_t)(m->now_ms + m->delay_ms);
}

// ---- the platform ------------------------------------------------------------------------------------------------

static struct tunnel_life_agent known(const struct model *m)
{
    return (struct tunnel_life_agent){.says_words = m->says_words, .said_ms = m->said_ms};
}

// As tunnel/session/session.c does it: words are found in the kernel by looking, everything else
// wakes.
static void platform_look(struct model *m)
{
    struct tunnel_life_agent agent = known(m);
    if (tunnel_life_doubts(&m->platform, &rules, m->now_ms) && m->kernel_ms > m->platform.heard_ms) {
        m->platform.heard_ms = m->kernel_ms;
        agent.looked = true;
    }
    switch (tunnel_life_look(&m->platform, &rules, &agent, m->now_ms)) {
    case TUNNEL_LIFE_DEAD: m->dead = true; return;
    case TUNNEL_LIFE_ASK:
        m->platform.asked_ms = m->now_ms;
        m->platform.waits = true;
        m->asked++;
        send(m, &m->to_agent.question_ms);
        m->said_ms = m->now_ms;
        break;
    case TUNNEL_LIFE_SAY:
        m->words++;
        send(m, &m->to_agent.word_ms);
        m->said_ms = m->now_ms;
        break;
    case TUNNEL_LIFE_WAIT: break;
    }
    agent = known(m);
    m->due_ms = tunnel_life_due_ms(&m->platform, &rules, &agent);
}

static void platform_step(struct model *m)
{
    bool question = arrives(m, &m->to_platform.question_ms), answer = arrives(m, &m->to_platform.answer_ms);
    bool word = arrives(m, &m->to_platform.word_ms);
    if (question || answer || word) m->kernel_ms = m->now_ms;
    if (m->hangs) return;
    if (word && !m->says_words) { // the first one wakes, and is answered
        m->platform.heard_ms = m->said_ms = m->now_ms;
        send(m, &m->to_agent.word_ms);
    }
    m->says_words = m->says_words || word;
    if (question || answer) m->platform.heard_ms = m->now_ms;
    if (answer) m->platform.waits = false;
    if (question) {
        send(m, &m->to_agent.answer_ms);
        m->said_ms = m->now_ms;
    }
    if (m->now_ms < m->tick_ms) return;
    m->tick_ms += TICK_MS;
    if (m->due_ms <= m->now_ms) platform_look(m);
}

// ---- the agent ---------------------------------------------------------------------------------------------------

static void agent_send(struct model *m, int64_t *at_ms)
{
    m->socket.sent_bytes += 8;
    agent_life_said(&m->agent, m->now_ms);
    send(m, at_ms);
    if (m->now_ms < m->cut_ms) m->socket.taken_bytes = m->socket.sent_bytes;
}

static void agent_step(struct model *m)
{
    bool word = arrives(m, &m->to_agent.word_ms), question = arrives(m, &m->to_agent.question_ms);
    if (word || question || arrives(m, &m->to_agent.answer_ms)) agent_life_heard(&m->agent, m->now_ms);
    if (word) agent_life_heard_word(&m->agent);
    if (question) agent_send(m, &m->to_platform.answer_ms);
    if (m->answers_only || m->now_ms < m->look_ms) return;
    uint64_t next_ms;
    switch (agent_life_look(&m->agent, &m->socket, m->now_ms, &next_ms)) {
    case AGENT_LIFE_SAY:
        m->agent_words++;
        agent_send(m, &m->to_platform.word_ms);
        break;
    case AGENT_LIFE_ASK:
        m->agent_questions++;
        agent_send(m, &m->to_platform.question_ms);
        break;
    case AGENT_LIFE_SILENT:
    case AGENT_LIFE_CUT: m->given_up = true; return;
    case AGENT_LIFE_WAIT: break;
    }
    m->look_ms = next_ms + random_below(LATE_MS_MAX);
}

// ---- both --------------------------------------------------------------------------------------------------------

static void start(struct model *m)
{
    const struct way nothing = {NEVER, NEVER, NEVER};
    uint64_t now_ms = 1000000 + random_below(TICK_MS);
    *m = (struct model){.now_ms = now_ms, .delay_ms = random_below(DELAY_MS_MAX), .cut_ms = UINT64_MAX};
    m->platform = (struct tunnel_life){.heard_ms = now_ms, .asked_ms = now_ms};
    m->kernel_ms = m->said_ms = now_ms;
    m->tick_ms = 1000000 + TICK_MS;
    m->to_platform = m->to_agent = nothing;
    agent_life_init(&m->agent, now_ms);
    agent_life_asked(&m->agent, now_ms);
    agent_send(m, &m->to_platform.question_ms);
    m->look_ms = now_ms + AGENT_LIFE_DEAD_AFTER_MS;
}

static void step(struct model *m)
{
    m->now_ms++;
    platform_step(m);
    agent_step(m);
}

static void run_until(struct model *m, uint64_t end_ms)
{
    while (m->now_ms < end_ms) {
        step(m);
        assert_false(m->dead);
        assert_false(m->given_up);
    }
}

static void test_idle_tunnels_cost_words_alone(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        start(&m);
        run_until(&m, m.now_ms + ROUND_MS);
        assert_int_equal(m.asked, 0);
        assert_in_range(m.agent_questions, 0, 1); // before it has heard that the platform sends keepalives, too
        assert_in_range(m.words, ROUND_MS / 29000 - 2, ROUND_MS / 27000 + 1);
        assert_in_range(m.agent_words, 0, ROUND_MS / AGENT_LIFE_SAY_AFTER_MS + 1);
    }
}

static void test_dead_agents_are_noticed_in_time(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        start(&m);
        m.answers_only = round % 4 == 0;
        run_until(&m, m.now_ms + 30000 + random_below(100000));
        m.cut_ms = m.now_ms;
        uint64_t last_ms = m.kernel_ms;
        while (!m.dead) {
            step(&m);
            assert_true(m.now_ms <= last_ms + PING_AFTER_MS + DEAD_AFTER_MS);
        }
        assert_true(m.now_ms >= last_ms + PING_AFTER_MS + DEAD_AFTER_MS - 2 * TICK_MS);
    }
}

static void test_platforms_that_hang_are_noticed(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct model m;
        start(&m);
        run_until(&m, m.now_ms + 30000 + random_below(100000));
        m.hangs = true; // its kernel goes on acknowledging
        while (!m.given_up)
            step(&m);
        uint64_t took_ms = m.now_ms - m.agent.in_ms; // what was under way still came
        assert_in_range(took_ms, 0,
                        AGENT_LIFE_ASK_AFTER_MS + AGENT_LIFE_DEAD_AFTER_MS + DELAY_MS_MAX + 2 * LATE_MS_MAX);
    }
}

static void test_round_trips_are_measured_now_and_then(void **state)
{
    (void)state;
    struct model m;
    start(&m);
    run_until(&m, m.now_ms + 2 * TUNNEL_LIFE_QUIET_ASK_MS + 60000);
    assert_int_equal(m.asked, 2);
    assert_in_range(m.agent_questions, 2, 3);
}

static void test_nothing_is_due_before_it_is_said_to_be(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 100000; round++) {
        uint64_t now_ms = 10000000;
        struct tunnel_life life = {.heard_ms = now_ms - random_below(30000),
                                   .asked_ms = now_ms - random_below(TUNNEL_LIFE_QUIET_ASK_MS + 1000),
                                   .waits = random_below(2)};
        struct tunnel_life_agent agent = {.says_words = random_below(2), .said_ms = now_ms - random_below(30000)};
        uint64_t due_ms = tunnel_life_due_ms(&life, &rules, &agent);
        if (now_ms < due_ms) assert_int_equal(tunnel_life_look(&life, &rules, &agent, now_ms), TUNNEL_LIFE_WAIT);
        agent.busy = true; // and while calls are open they carry the proof
        assert_int_not_equal(tunnel_life_look(&life, &rules, &agent, now_ms), TUNNEL_LIFE_SAY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_tunnels_cost_words_alone),
        cmocka_unit_test(test_dead_agents_are_noticed_in_time),
        cmocka_unit_test(test_platforms_that_hang_are_noticed),
        cmocka_unit_test(test_round_trips_are_measured_now_and_then),
        cmocka_unit_test(test_nothing_is_due_before_it_is_said_to_be),
    };
    random_state = 20261121;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
