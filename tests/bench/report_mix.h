// report_mix: what the reports of one runtime look like, made up but lifelike and the same in every run: manifests of
// several kinds whose sizes are spread log-normally around 2 KiB, and changes of them, a tenth of which come twice
// within a second. One thread.
#ifndef BENCH_REPORT_MIX_H
#define BENCH_REPORT_MIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/object_ref.h"

struct report_mix;

struct report_mix_object {
    struct object_ref ref;
    struct str application_ns, application_name, sync_status, health_status; // empty for an Application
    struct str manifest;                                                     // JSON, keys in order
};

struct report_mix *report_mix_create(struct str runtime, size_t objects);
void report_mix_destroy(struct report_mix *mix);
void report_mix_grow(struct report_mix *mix, size_t objects);
size_t report_mix_objects(const struct report_mix *mix);
// The i-th object as it is now. Views until the next call.
void report_mix_show(struct report_mix *mix, size_t i, struct report_mix_object *out);
// What Git wants of the object that was shown last. A view until this is called again.
struct str report_mix_desired(struct report_mix *mix);
// Changes some object and shows it: any one, or one of those that changed a moment ago. Views until the next call.
void report_mix_change(struct report_mix *mix, struct report_mix_object *out);

#endif
