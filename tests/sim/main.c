// sim: agent and platform in one process on a simulated clock, over many runs that differ by their
// seed: reports, reconnects, takeovers, restarts, resyncs, a database that is away.
// docs/internals/simulation.md.
//
//   sim [--seed N] [--schedules M] [--seconds S] [--corpus FILE] [--break NAME] [--verbose]
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "tests/sim/schedule.h"
#include "tests/sim/world.h"

static const char usage[] =
    "usage: sim [--seed N] [--schedules M] [--seconds S] [--corpus FILE] [--break NAME] [--verbose]\n"
    "  --seed N        of the first schedule, which the others follow; default: of today\n"
    "  --schedules M   how many; default 1000, with --seconds no end\n"
    "  --seconds S     stop after so many seconds\n"
    "  --corpus FILE   replays the seeds of a file, one a line, before the others\n"
    "  --break NAME    breaks a rule: early-answer, no-order, incomplete-ends\n"
    "  --verbose       logs of agent and platform\n";

struct run {
    struct loop *loop;
    struct world_options world;
    struct world_counts counts;
    uint64_t schedules, seconds, seed, done;
    const char *corpus;
    char folder[64], kubeconfig[80];
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool run_one(struct run *run, uint64_t seed)
{
    const char *broken = world_run(run->loop, seed, &run->world, &run->counts);
    run->done++;
    if (broken) printf("sim: seed %llu: %s\n", (unsigned long long)seed, broken);
    return !broken;
}

static bool run_corpus(struct run *run)
{
    FILE *file = run->corpus ? fopen(run->corpus, "r") : NULL;
    char line[256];
    bool ok = true;
    if (run->corpus && !file) {
        printf("sim: %s cannot be read\n", run->corpus);
        return false;
    }
    while (file && fgets(line, sizeof line, file))
        if (line[0] >= '0' && line[0] <= '9') ok &= run_one(run, strtoull(line, NULL, 10));
    if (file) fclose(file);
    return ok;
}

static bool run_all(struct run *run)
{
    double begin = seconds_now();
    bool ok = run_corpus(run);
    for (uint64_t i = 0; ok && i < run->schedules; i++) {
        if (run->seconds && seconds_now() - begin >= (double)run->seconds) break;
        ok = run_one(run, run->seed + i);
    }
    const struct world_counts *counts = &run->counts;
    printf("sim: %llu schedules from seed %llu in %.1f s: %llu simulated seconds, %llu changes, %llu sessions, %llu "
           "cuts, %llu agents restarted, %llu replicas killed: %s\n",
           (unsigned long long)run->done, (unsigned long long)run->seed, seconds_now() - begin,
           (unsigned long long)counts->seconds, (unsigned long long)counts->changes,
           (unsigned long long)counts->sessions, (unsigned long long)counts->cuts, (unsigned long long)counts->restarts,
           (unsigned long long)counts->kills, ok ? "all held" : "FAILED");
    return ok;
}

static bool read_options(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"schedules", required_argument, NULL, 'n'},
                                            {"seconds", required_argument, NULL, 't'},
                                            {"corpus", required_argument, NULL, 'c'},
                                            {"break", required_argument, NULL, 'b'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    struct store_mutations *mutations = &run->world.mutations;
    bool is_quiet = true, has_schedules = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 's': run->seed = strtoull(optarg, NULL, 10); break;
        case 'n':
            run->schedules = strtoull(optarg, NULL, 10);
            has_schedules = true;
            break;
        case 't': run->seconds = strtoull(optarg, NULL, 10); break;
        case 'c': run->corpus = optarg; break;
        case 'b':
            mutations->early_answer = strcmp(optarg, "early-answer") == 0;
            mutations->no_order = strcmp(optarg, "no-order") == 0;
            mutations->incomplete_ends = strcmp(optarg, "incomplete-ends") == 0;
            if (!mutations->early_answer && !mutations->no_order && !mutations->incomplete_ends) return false;
            break;
        case 'v': is_quiet = false; break;
        default: return false;
        }
    }
    if (run->seconds && !has_schedules) run->schedules = UINT64_MAX;
    if (is_quiet) log_set_level(LOG_ERROR + 1);
    return optind == argc;
}

static bool make_files(struct run *run)
{
    snprintf(run->folder, sizeof run->folder, "/tmp/culvert-sim-XXXXXX");
    if (!mkdtemp(run->folder)) return false;
    snprintf(run->kubeconfig, sizeof run->kubeconfig, "%s/kubeconfig", run->folder);
    FILE *file = fopen(run->kubeconfig, "w");
    if (!file) return false;
    fputs("apiVersion: v1\nkind: Config\ncurrent-context: sim\n"
          "clusters: [{name: sim, cluster: {server: \"http://127.0.0.1:1\"}}]\n"
          "users: [{name: sim, user: {}}]\n"
          "contexts: [{name: sim, context: {cluster: sim, user: sim}}]\n",
          file);
    run->world.kubeconfig = run->kubeconfig;
    run->world.state_folder = run->folder;
    return fclose(file) == 0;
}

static void remove_files(struct run *run)
{
    char key[96];
    snprintf(key, sizeof key, "%s/redaction.key", run->folder);
    unlink(key);
    unlink(run->kubeconfig);
    rmdir(run->folder);
}

int main(int argc, char **argv)
{
    struct run run = {.schedules = 1000, .seed = (uint64_t)time(NULL) / 86400 * 1000000};
    if (!read_options(&run, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    json_object_seed(1);
    if (!make_files(&run)) {
        fprintf(stderr, "sim: no temporary folder\n");
        return 2;
    }
    run.loop = loop_create("sim", 0);
    // The first one makes the redaction key: with a seed of its own, so that each seed runs alike
    // alone and among others.
    bool ok = run_one(&run, 1) && run_all(&run);
    loop_destroy(run.loop);
    remove_files(&run);
    return ok ? 0 : 1;
}
