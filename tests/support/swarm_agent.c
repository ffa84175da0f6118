#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/swarm.h"

// The waits of agent/tunnel/tunnel_client.c.
enum {
    RETRY_BASE_MS = 500,
    RETRY_CAP_MS = 30 * 1000,
    REFUSED_BASE_MS = 5 * 1000,
    REFUSED_CAP_MS = 5 * 60 * 1000,
    GOOD_LIFE_MS = 60 * 1000,
    STANDBY_MS = 30 * 1000,
    REPLACED_DEADLINE_MS = 60 * 1000,
};

void swarm_agent_init(struct swarm_agent *agent, struct swarm *swarm)
{
    agent->swarm = swarm;
    backoff_init(&agent->retry, RETRY_BASE_MS, RETRY_CAP_MS);
    backoff_init(&agent->refused, REFUSED_BASE_MS, REFUSED_CAP_MS);
    snprintf(agent->instance_id, sizeof(agent->instance_id), "swarm-%s", agent->runtime);
}

static void dial_after(struct swarm_agent *agent, uint64_t wait_ms)
{
    if (agent->wanted) agent->dial_at_ms = clock_mono_ms() + wait_ms + 1;
}

static void set_serving(struct swarm_agent *agent, struct swarm_link *link)
{
    struct swarm *swarm = agent->swarm;
    if (agent->serving && !link) swarm->serving--;
    if (!agent->serving && link) swarm->serving++;
    agent->serving = link;
    if (link)
        agent->serving_since_ms = clock_mono_ms();
    else
        agent->lost_at_ms = clock_mono_ms();
}

static void retire(struct swarm_link *link)
{
    link->phase = SWARM_RETIRING;
    link->deadline_ms = clock_mono_ms() + REPLACED_DEADLINE_MS;
    swarm_http2_goaway(link);
    swarm_link_flush(link);
}

void swarm_agent_start(struct swarm_agent *agent, uint64_t spread_ms)
{
    if (agent->wanted) return;
    agent->wanted = true;
    agent->lost_at_ms = clock_mono_ms();
    dial_after(agent, id_random_below(spread_ms + 1));
}

void swarm_agent_stop(struct swarm_agent *agent)
{
    agent->wanted = agent->replace = false;
    agent->dial_at_ms = 0;
    if (agent->opening) swarm_link_end(agent->opening, NULL);
    agent->opening = NULL;
    if (!agent->serving) return;
    swarm_link_end(agent->serving, NULL);
    set_serving(agent, NULL);
}

void swarm_agent_stall(struct swarm_agent *agent)
{
    agent->dial_at_ms = 0;
    agent->wanted = false;
    if (!agent->serving) return;
    swarm_link_stall(agent->serving, true);
    agent->serving->phase = SWARM_RETIRING; // nothing follows from its end
    agent->serving->deadline_ms = UINT64_MAX;
    set_serving(agent, NULL);
}

void swarm_agent_redial(struct swarm_agent *agent)
{
    agent->wanted = true;
    agent->replace = agent->serving != NULL;
    agent->lost_at_ms = clock_mono_ms();
    dial_after(agent, 0);
}

void swarm_agent_tick(struct swarm_agent *agent, uint64_t now_ms)
{
    if (!agent->dial_at_ms || now_ms < agent->dial_at_ms) return;
    agent->dial_at_ms = 0;
    if (agent->opening || (agent->serving && !agent->replace)) return;
    agent->opening = swarm_link_dial(agent);
    if (!agent->opening) dial_after(agent, backoff_next_ms(&agent->retry));
}

void swarm_agent_on_hello(struct swarm_agent *agent, struct swarm_link *link, uint64_t epoch)
{
    struct swarm_link *older = agent->serving;
    link->epoch = epoch;
    link->phase = SWARM_SERVING;
    agent->opening = NULL;
    agent->replace = false;
    if (older) retire(older); // make before break: the new one serves already
    swarm_note_acked(agent->swarm, older ? 0 : clock_mono_ms() - agent->lost_at_ms);
    set_serving(agent, link);
}

void swarm_agent_on_drain(struct swarm_agent *agent, struct swarm_link *link, uint64_t spread_ms)
{
    if (link != agent->serving || agent->replace || !agent->wanted) return;
    swarm_count(agent->swarm, SWARM_DRAINS);
    agent->replace = true;
    uint64_t most_ms = (uint64_t)RETRY_CAP_MS * 10;
    dial_after(agent, id_random_below((spread_ms < most_ms ? spread_ms : most_ms) + 1));
}

void swarm_agent_on_superseded(struct swarm_agent *agent, struct swarm_link *link)
{
    if (link->phase == SWARM_RETIRING) return; // by our own newer one
    swarm_count(agent->swarm, SWARM_SUPERSEDED);
    if (link == agent->serving) set_serving(agent, NULL);
    bool opening = agent->opening && agent->opening != link;
    if (agent->opening == link) agent->opening = NULL;
    retire(link);
    if (!opening) dial_after(agent, STANDBY_MS + id_random_below(STANDBY_MS));
}

static uint64_t wait_after(struct swarm_agent *agent, const struct swarm_end *end)
{
    if (end->status == 401 || end->status == 403) return REFUSED_BASE_MS / 2 + backoff_next_ms(&agent->refused);
    if ((end->status == 503 || end->status == 429) && end->retry_after_ms >= 0) {
        uint64_t asked_ms = (uint64_t)end->retry_after_ms;
        return asked_ms + id_random_below(asked_ms / 2 + RETRY_BASE_MS);
    }
    return backoff_next_ms(&agent->retry);
}

void swarm_agent_on_end(struct swarm_agent *agent, struct swarm_link *link, const struct swarm_end *end)
{
    static const enum swarm_count failures[] = {SWARM_FAILED_CONNECT, SWARM_FAILED_TLS, SWARM_FAILED_UPGRADE,
                                                SWARM_FAILED_HELLO,   SWARM_LOST,       SWARM_COUNTS};
    if (end->status == 0 && link->phase != SWARM_RETIRING) swarm_count(agent->swarm, failures[link->phase]);
    if (link->phase == SWARM_RETIRING) return;
    if (link == agent->opening) agent->opening = NULL;
    if (link == agent->serving) {
        if (clock_mono_ms() - agent->serving_since_ms >= GOOD_LIFE_MS) {
            backoff_reset(&agent->retry);
            backoff_reset(&agent->refused);
        }
        set_serving(agent, NULL);
    }
    if (!agent->opening) dial_after(agent, wait_after(agent, end));
}
