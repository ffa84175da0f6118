// flapping: which objects change far more often than anybody needs to know. A token bucket an object, over both mouths:
// each change that was written takes a token; who finds none is noisy, and noisy objects are written down now and then
// as findings for people. Nothing is refused here: the agent tells a noisy object once a second at most, and over HTTP
// the share of the runtime holds. Bounded: the object that changed longest ago makes room. One loop.
#ifndef CULVERT_SERVER_INTAKE_FLAPPING_H
#define CULVERT_SERVER_INTAKE_FLAPPING_H

#include "base/loop/loop.h"
#include "storage/reports/flapping_store.h"
#include "storage/reports/report_store.h"

struct flapping;

struct flapping_options {
    struct pg *pg;
    uint64_t burst;       // changes at once that are still no flapping
    uint64_t interval_ms; // a token comes back after so long
    uint64_t objects_max; // that are remembered
    uint64_t flush_ms;    // between findings
    // The store; a test puts its own here.
    void (*put)(struct pg *pg, const char *account_id, const struct flapping_finding *findings, size_t count,
                store_count_done on_done, void *arg);
};

struct flapping *flapping_create(struct loop *loop, const struct flapping_options *options);
void flapping_stop(struct flapping *flapping); // before pg is closed: no more findings are written
void flapping_destroy(struct flapping *flapping);
// After a COMMIT: counts those reports about objects that changed something.
void flapping_take(struct flapping *flapping, const struct report *reports, const struct report_outcome *outcomes,
                   size_t count, uint64_t now_ms);
// What the timer does: hands the findings there are to the store.
void flapping_flush(struct flapping *flapping, uint64_t now_ms);
size_t flapping_count(const struct flapping *flapping); // objects that are remembered

#endif
