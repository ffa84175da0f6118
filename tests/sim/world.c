#include "tests/sim/world.h"

#include "agent/reports/reporter.h"
#include "base/clock.h"
#include "tests/sim/ledger.h"
#include "tests/sim/platform.h"
#include "tests/sim/schedule.h"

enum {
    REST_MS = 500,
    REST_MAX_MS = 30 * 60 * 1000,
    STAY_MS = 10000, // what is equal must stay so
};

struct world {
    struct loop *loop;
    const struct world_options *options;
    struct world_counts *counts;
    struct cluster *cluster;
    struct store *store;
    struct platform *platform;
    struct reporter *reporter; // NULL: between two pods
    struct link *link;         // NULL: none
    bool has_stream;
    bool always_compares;
};

static bool is_over(const struct world *world)
{
    (void)world;
    return ledger_broken() != NULL;
}

// ---- the agent --------------------------------------------------------------------------------

static void redial(struct world *world);

static void on_dial(void *arg)
{
    struct world *world = arg;
    if (world->link || !world->reporter) return;
    world->link = link_dial(world->platform);
    if (!world->link) redial(world);
}

static void redial(struct world *world)
{
    schedule_after(schedule_spread(10, 4000), on_dial, world);
}

static void on_open(void *arg, struct link *link)
{
    struct world *world = arg;
    struct report_sink sink;
    link_sink(link, &sink);
    sink.compares = world->always_compares || schedule_percent(50);
    sink.takes_details = world->always_compares || schedule_percent(90);
    world->has_stream = true;
    world->counts->sessions++;
    reporter_sink_open(world->reporter, &sink);
}

static void on_bytes(void *arg, struct link *link, const uint8_t *at, size_t len)
{
    (void)link;
    reporter_on_ack_bytes(((struct world *)arg)->reporter, at, len);
}

static void on_writable(void *arg, struct link *link)
{
    (void)link;
    reporter_stream_writable(((struct world *)arg)->reporter);
}

static void on_closed(void *arg, struct link *link)
{
    struct world *world = arg;
    (void)link;
    if (world->has_stream) reporter_stream_closed(world->reporter);
    world->has_stream = false;
    world->link = NULL;
    redial(world);
}

static const struct link_events link_events = {on_open, on_bytes, on_writable, on_closed};

static void start_agent(void *arg)
{
    struct world *world = arg;
    struct error err;
    if (world->reporter) return;
    world->reporter = reporter_create_with(world->loop,
                                           &(struct reporter_options){.kubeconfig = world->options->kubeconfig,
                                                                      .transport = cluster_transport(world->cluster),
                                                                      .state_folder = world->options->state_folder},
                                           &err);
    if (world->reporter)
        redial(world);
    else
        ledger_violation("the agent does not start: %s", err.text);
}

static void stop_agent(struct world *world)
{
    if (!world->reporter) return;
    if (world->link) link_abandon(world->link);
    world->link = NULL;
    world->has_stream = false;
    reporter_destroy(world->reporter);
    world->reporter = NULL;
}

// ---- what goes wrong --------------------------------------------------------------------------

static void kill_replica(struct world *world)
{
    unsigned replica = (unsigned)schedule_below(PLATFORM_REPLICAS);
    if (platform_is_up(world->platform, replica)) {
        platform_kill(world->platform, replica);
        world->counts->kills++;
    } else {
        platform_start(world->platform, replica);
    }
}

// The agent believes its link dead, and dials anew while what it sent may still arrive.
static void take_over(struct world *world)
{
    if (!world->link) return;
    link_abandon(world->link);
    on_closed(world, world->link);
}

static void act(struct world *world)
{
    uint64_t what = schedule_below(100);
    if (what < 60) {
        for (uint64_t i = schedule_spread(1, 20); i; i--, world->counts->changes++)
            cluster_change(world->cluster);
    } else if (what < 70) {
        platform_cut(world->platform);
        world->counts->cuts++;
    } else if (what < 76) {
        take_over(world);
        world->counts->cuts++;
    } else if (what < 80) {
        stop_agent(world);
        schedule_after(schedule_spread(0, 5000), start_agent, world);
        world->counts->restarts++;
    } else if (what < 86) {
        kill_replica(world);
    } else if (what < 90) {
        store_set_away(world->store, schedule_percent(50));
    } else if (what < 94) {
        cluster_break_watches(world->cluster);
    } else if (what < 96) {
        cluster_compact(world->cluster);
        cluster_break_watches(world->cluster);
    } else if (what < 98) {
        cluster_deny(world->cluster, (unsigned)schedule_below(1u << CLUSTER_KINDS));
        cluster_break_watches(world->cluster);
    } else {
        bool faults = schedule_percent(60);
        platform_set_faults(world->platform, faults);
        store_set_faults(world->store, schedule_percent(60));
        cluster_set_faults(world->cluster, schedule_percent(60));
    }
}

// ---- at rest ----------------------------------------------------------------------------------

static void mend(struct world *world)
{
    platform_set_faults(world->platform, false);
    store_set_faults(world->store, false);
    store_set_away(world->store, false);
    cluster_set_faults(world->cluster, false);
    cluster_deny(world->cluster, 0);
    for (unsigned i = 0; i < PLATFORM_REPLICAS; i++)
        if (!platform_is_up(world->platform, i)) platform_start(world->platform, i);
}

static bool is_at_rest(const struct world *world)
{
    uint64_t behind_ms, blind_ms;
    if (!world->reporter || !world->has_stream || !platform_is_idle(world->platform)) return false;
    reporter_lag(world->reporter, &behind_ms, &blind_ms);
    return behind_ms == 0 && blind_ms == 0 && reporter_outbox_depth(world->reporter) == 0;
}

// The agent says that it is not behind: then both hold the same, and that stays so.
static void come_to_rest(struct world *world)
{
    char why[256] = "";
    uint64_t from_ms = clock_mono_ms();
    mend(world);
    while (!is_over(world) && !(is_at_rest(world) && store_equals_truth(world->store, why, sizeof why))) {
        if (clock_mono_ms() - from_ms > REST_MAX_MS) {
            uint64_t behind_ms = 0, blind_ms = 0;
            if (world->reporter) reporter_lag(world->reporter, &behind_ms, &blind_ms);
            ledger_violation("at rest both are equal: %s (stream %d, behind %llu ms, blind %llu ms)", why,
                             world->has_stream, (unsigned long long)behind_ms, (unsigned long long)blind_ms);
        }
        schedule_run_ms(REST_MS);
    }
    schedule_run_ms(STAY_MS);
    if (!is_over(world) && !store_equals_truth(world->store, why, sizeof why))
        ledger_violation("at rest both stay equal: %s", why);
}

const char *world_run(struct loop *loop, uint64_t seed, const struct world_options *options,
                      struct world_counts *counts)
{
    schedule_begin(seed);
    ledger_begin(seed);
    struct world world = {.loop = loop, .options = options, .counts = counts};
    world.always_compares = schedule_percent(75);
    world.cluster = cluster_create(1 + (unsigned)schedule_spread(2, CLUSTER_OBJECTS_MAX - 1));
    world.store = store_create(world.cluster, &options->mutations);
    world.platform = platform_create(loop, world.store, &link_events, &world);
    start_agent(&world);
    uint64_t begin_ms = clock_mono_ms(), chaos_ms = schedule_spread(5000, 60000);
    while (!is_over(&world) && clock_mono_ms() < begin_ms + chaos_ms) {
        act(&world);
        schedule_run_ms(schedule_spread(1, 4000));
    }
    come_to_rest(&world);
    counts->seconds += (clock_mono_ms() - begin_ms) / 1000;
    stop_agent(&world);
    platform_destroy(world.platform);
    schedule_end();
    store_destroy(world.store);
    cluster_destroy(world.cluster);
    ledger_end();
    clock_simulate_end();
    return ledger_broken();
}
