#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tunnel/listener/deadline_table.h"
#include "tunnel/session/session.h"

enum { SESSIONS = 300, STEPS = 20000, DUE_MAX = 50 };

// A model: each session's own time, kept beside the table.
struct model {
    struct tunnel_session session;
    bool listed;
    uint64_t due_ms;
};

static void check_round(const struct deadline_table *table, struct model *models, uint64_t now_ms)
{
    size_t at = 0, expected = 0, found = 0;
    bool seen[SESSIONS] = {false};
    for (int i = 0; i < SESSIONS; i++)
        expected += models[i].listed && models[i].due_ms <= now_ms;
    for (struct tunnel_session *session; (session = deadline_table_next_due(table, &at, now_ms)); found++) {
        struct model *model = (struct model *)session;
        assert_true(model->listed && model->due_ms <= now_ms);
        assert_false(seen[model - models]); // once a round
        seen[model - models] = true;
    }
    assert_int_equal(found, expected);
}

static void it_knows_what_is_due(void **state)
{
    (void)state;
    struct deadline_table table;
    struct model *models = mem_array(SESSIONS, sizeof *models);
    uint32_t random = 20261121; // fixed: a failure can be repeated
    deadline_table_init(&table);
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        struct model *model = &models[(random >> 8) % SESSIONS];
        if (!model->listed) {
            deadline_table_add(&table, &model->session);
            model->listed = true;
            model->due_ms = 0; // at once
        } else if (random % 5 == 0) {
            deadline_table_remove(&table, &model->session);
            model->listed = false;
        } else {
            model->due_ms = (random >> 20) % DUE_MAX;
            deadline_table_set(&table, &model->session, model->due_ms);
        }
        if (step % 37 == 0) check_round(&table, models, (random >> 4) % DUE_MAX);
    }
    deadline_table_finish(&table);
    mem_free(models);
}

static void a_round_survives_removals(void **state)
{
    (void)state;
    struct deadline_table table;
    struct model *models = mem_array(SESSIONS, sizeof *models);
    deadline_table_init(&table);
    for (int i = 0; i < SESSIONS; i++)
        deadline_table_add(&table, &models[i].session);
    size_t rounds = 0;
    while (table.count) { // each that is found goes: what moves into its place waits for the next round
        size_t at = 0, before = table.count;
        for (struct tunnel_session *session; (session = deadline_table_next_due(&table, &at, 1));)
            deadline_table_remove(&table, session);
        assert_true(table.count <= before / 2);
        rounds++;
    }
    assert_true(rounds < 12);
    deadline_table_finish(&table);
    mem_free(models);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_what_is_due),
        cmocka_unit_test(a_round_survives_removals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
