// report_load: reports of some runtimes, made beforehand, then told as fast as they are taken (or at a rate), with the
// time until each is durable. What is common to the three ways of telling them: report_tunnel.c, report_http.c and
// report_raw.c. One thread, but for raw, which has one a runtime while it runs.
#ifndef BENCH_REPORT_LOAD_H
#define BENCH_REPORT_LOAD_H

#include "base/token.h"
#include "client.h"
#include "report_mix.h"
#include "storage/reports/report.h"

struct report_load;

// What one runtime tells. The way keeps what it made of the reports; times are kept here.
struct report_lane {
    struct report_load *load;
    char account_id[ID_ACCOUNT_BYTES], runtime[64], token[TOKEN_TEXT_BYTES];
    struct report_mix *mix;
    int64_t clock_ms;            // of observation: grows by one a report
    size_t count, told, durable; // of this run
    uint64_t *told_ns, *took_us; // `count` each
    uint64_t refused;
    void *way;
};

struct report_load {
    struct client_options client; // host, port, CA
    const char *database;         // conninfo
    bool as_http;                 // raw: with what only HTTP reports know
    unsigned window;              // reports of a runtime under way at most
    size_t batch_count;           // raw: reports a transaction
    struct report_lane *lanes;
    size_t lane_count, running; // the first so many take part in this run
    bool is_going;              // a run is: before that everything is made ready
    void *begun;                // the way's own, between begin and the end of a run
    uint64_t started_ns;
    double rate; // reports a second and runtime; 0: as fast as they are taken
    SSL_CTX *tls;
    int epoll;
};

struct report_way {
    void (*open)(struct report_load *load);
    // One report of the run that comes; called `count` times a lane.
    void (*add)(struct report_lane *lane, const struct report_mix_object *object);
    void (*begin)(struct report_load *load); // what else is to be made ready before the clock starts; may be NULL
    // Tells all of it; returns when all is durable.
    void (*run)(struct report_load *load);
    void (*idle)(struct report_load *load); // something happened on load->epoll between runs; may be NULL
    void (*close)(struct report_load *load);
};
extern const struct report_way report_way_tunnel, report_way_http, report_way_raw;

// How many reports of this lane may have been told by now.
size_t report_lane_allowed(const struct report_lane *lane);
void report_lane_tell(struct report_lane *lane);              // the next one leaves
void report_lane_durable(struct report_lane *lane, size_t i); // the i-th is

#endif
