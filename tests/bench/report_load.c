// report_load: see report_load.h. Commands on standard input, each answered by a line of JSON:
//   objects FROM TO       every runtime tells its objects FROM (inclusive) to TO for the first time
//   changes COUNT RUNTIMES RATE   the first so many runtimes tell COUNT changes each, RATE a second each (0: no limit)
//   quit
// When everything is made ready for a run it says so with a line of its own, and begins with the line that comes then.
#include "report_load.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "histogram.h"

enum { RUNTIMES_MAX = 64, HISTORY_MS = 3600 * 1000 };

size_t report_lane_allowed(const struct report_lane *lane)
{
    const struct report_load *load = lane->load;
    if (!load->is_going) return 0;
    size_t most = lane->durable + load->window;
    if (load->rate > 0) {
        double due = (double)(histogram_now_ns() - load->started_ns) / 1e9 * load->rate;
        if (due < (double)most) most = (size_t)due;
    }
    return most < lane->count ? most : lane->count;
}

void report_lane_tell(struct report_lane *lane)
{
    lane->told_ns[lane->told++] = histogram_now_ns();
}

void report_lane_durable(struct report_lane *lane, size_t i)
{
    lane->took_us[i] = (histogram_now_ns() - lane->told_ns[i]) / 1000;
    lane->durable++;
}

// ---- a run ---------------------------------------------------------------------------------------------------------

static void lane_begin(struct report_lane *lane, size_t count)
{
    lane->count = count;
    lane->told = lane->durable = 0;
    lane->refused = 0;
    mem_free(lane->told_ns);
    mem_free(lane->took_us);
    lane->told_ns = mem_array(count + 1, sizeof *lane->told_ns);
    lane->took_us = mem_array(count + 1, sizeof *lane->took_us);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Whoever measures reads the clocks of all processes now: what was made ready is no part of the figures.
static void await_start(void)
{
    char byte = '\0';
    puts("{\"made\":true}");
    fflush(stdout);
    while (byte != '\n')
        if (read(STDIN_FILENO, &byte, 1) != 1) exit(1);
}

static void run(const struct report_way *way, struct report_load *load)
{
    size_t total = 0;
    uint64_t refused = 0;
    if (way->begin) way->begin(load);
    await_start();
    double cpu = cpu_seconds();
    load->started_ns = histogram_now_ns();
    load->is_going = true;
    way->run(load);
    load->is_going = false;
    double seconds = (double)(histogram_now_ns() - load->started_ns) / 1e9;
    cpu = cpu_seconds() - cpu;
    for (size_t i = 0; i < load->running; i++)
        total += load->lanes[i].count;
    uint64_t *all = mem_array(total + 1, sizeof *all);
    total = 0;
    for (size_t i = 0; i < load->running; i++) {
        struct report_lane *lane = &load->lanes[i];
        memcpy(all + total, lane->took_us, lane->count * sizeof *all);
        total += lane->count;
        refused += lane->refused;
    }
    qsort(all, total, sizeof *all, compare);
    printf("{\"reports\":%zu,\"refused\":%llu,\"seconds\":%.6f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"cpu_seconds\":%.3f}\n",
           total, (unsigned long long)refused, seconds, total ? (double)all[total / 2] / 1e3 : 0,
           total ? (double)all[total * 99 / 100] / 1e3 : 0, cpu);
    mem_free(all);
}

// Tunnels that are not heard of for long are taken for dead, also while much is made ready.
static void add(const struct report_way *way, struct report_lane *lane, const struct report_mix_object *object,
                size_t i)
{
    enum { IDLE_EVERY = 500 };
    lane->clock_ms++;
    way->add(lane, object);
    if (way->idle && i % IDLE_EVERY == 0) way->idle(lane->load);
}

static bool tell_objects(const struct report_way *way, struct report_load *load, size_t from, size_t to)
{
    if (to <= from) return false;
    load->running = load->lane_count;
    load->rate = 0;
    for (size_t l = 0; l < load->lane_count; l++) {
        struct report_lane *lane = &load->lanes[l];
        struct report_mix_object object;
        if (report_mix_objects(lane->mix) < to) report_mix_grow(lane->mix, to);
        lane_begin(lane, to - from);
        for (size_t i = from; i < to; i++) {
            report_mix_show(lane->mix, i, &object);
            add(way, lane, &object, i);
        }
    }
    run(way, load);
    return true;
}

static bool tell_changes(const struct report_way *way, struct report_load *load, size_t count, size_t runtimes,
                         double rate)
{
    if (!count || !runtimes || runtimes > load->lane_count) return false;
    load->running = runtimes;
    load->rate = rate;
    for (size_t l = 0; l < runtimes; l++) {
        struct report_lane *lane = &load->lanes[l];
        struct report_mix_object object;
        if (!report_mix_objects(lane->mix)) return false;
        lane_begin(lane, count);
        for (size_t i = 0; i < count; i++) {
            report_mix_change(lane->mix, &object);
            add(way, lane, &object, i);
        }
    }
    run(way, load);
    return true;
}

// ---- commands ------------------------------------------------------------------------------------------------------

// False: the program is to end.
static bool command(const struct report_way *way, struct report_load *load, const char *line)
{
    size_t a = 0, b = 0;
    double rate = 0;
    if (strncmp(line, "quit", 4) == 0) return false;
    bool good = false;
    if (sscanf(line, "objects %zu %zu", &a, &b) == 2)
        good = tell_objects(way, load, a, b);
    else if (sscanf(line, "changes %zu %zu %lf", &a, &b, &rate) == 3)
        good = tell_changes(way, load, a, b, rate);
    if (!good) puts("{\"error\":\"no such command\"}");
    fflush(stdout);
    return true;
}

static void take_commands(const struct report_way *way, struct report_load *load)
{
    struct strbuf input;
    strbuf_init(&input, 64 * 1024);
    for (;;) {
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = load->epoll, .events = POLLIN}};
        if (poll(fds, way->idle ? 2 : 1, -1) < 0 && errno != EINTR) client_die("poll");
        if (way->idle && fds[1].revents) way->idle(load);
        if (!fds[0].revents) continue;
        char chunk[4096], *end;
        ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n <= 0 || !strbuf_add(&input, chunk, (size_t)n)) break;
        bool going = true;
        while (going && input.len && (end = memchr(input.at, '\n', input.len))) {
            *end = '\0';
            going = command(way, load, input.at);
            strbuf_drop_front(&input, (size_t)(end + 1 - input.at));
        }
        if (!going) break;
    }
    strbuf_finish(&input);
}

// ---- start ---------------------------------------------------------------------------------------------------------

static void load_agents(struct report_load *load, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) client_die(path);
    load->lanes = mem_array(RUNTIMES_MAX, sizeof *load->lanes);
    struct report_lane *lane = load->lanes;
    while (load->lane_count < RUNTIMES_MAX &&
           fscanf(file, "%24s %63s %89s", lane->account_id, lane->runtime, lane->token) == 3) {
        lane->load = load;
        lane->mix = report_mix_create(str_c(lane->runtime), 0);
        lane->clock_ms = clock_wall_ms() - HISTORY_MS;
        lane = &load->lanes[++load->lane_count];
    }
    fclose(file);
    if (!load->lane_count) client_die("no runtimes");
}

static char *read_line(const char *path)
{
    static char line[1024];
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file)) client_die(path);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"way", required_argument, NULL, 'w'},
        {"agents", required_argument, NULL, 'a'},
        {"port", required_argument, NULL, 'p'},
        {"ca", required_argument, NULL, 'c'},
        {"window", required_argument, NULL, 'n'},
        {"database", required_argument, NULL, 'd'},
        {"batch", required_argument, NULL, 'b'},
        {"as-http", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct report_load load = {.window = 1024, .batch_count = 256, .epoll = -1};
    const struct report_way *way = NULL;
    snprintf(load.client.host, sizeof load.client.host, "localhost");
    load.client.tls = true;
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (name) {
        case 'w':
            way = strcmp(optarg, "tunnel") == 0 ? &report_way_tunnel
                  : strcmp(optarg, "http") == 0 ? &report_way_http
                                                : &report_way_raw;
            break;
        case 'a': load_agents(&load, optarg); break;
        case 'p': load.client.port = (uint16_t)atoi(optarg); break;
        case 'c': load.client.ca_file = optarg; break;
        case 'n': load.window = (unsigned)atoi(optarg); break;
        case 'd': load.database = read_line(optarg); break;
        case 'b': load.batch_count = (size_t)atoi(optarg); break;
        case 'h': load.as_http = true; break;
        default: return 2;
        }
    }
    if (!way || !load.lane_count || !load.window || !load.batch_count) return 2;
    snprintf(load.client.authority, sizeof load.client.authority, "%s:%u", load.client.host, load.client.port);
    signal(SIGPIPE, SIG_IGN);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load.client.ca_file) load.tls = client_tls(&load.client);
    way->open(&load);
    printf("{\"ready\":true,\"runtimes\":%zu}\n", load.lane_count);
    fflush(stdout);
    take_commands(way, &load);
    way->close(&load);
    for (size_t i = 0; i < load.lane_count; i++) {
        report_mix_destroy(load.lanes[i].mix);
        mem_free(load.lanes[i].told_ns);
        mem_free(load.lanes[i].took_us);
    }
    mem_free(load.lanes);
    SSL_CTX_free(load.tls);
    close(load.epoll);
    return 0;
}
