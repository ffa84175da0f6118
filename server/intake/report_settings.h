// report_settings: from intake to the transaction. Owner: server/intake.
// Read-only once loaded; any thread.
#ifndef CULVERT_SERVER_INTAKE_REPORT_SETTINGS_H
#define CULVERT_SERVER_INTAKE_REPORT_SETTINGS_H

#include "base/config/config.h"

struct report_settings {
    int64_t batch_count;
    int64_t batch_bytes;
    int64_t batch_delay_ms;
    int64_t queue_bytes_max;
    int64_t transactions;
    int64_t account_share;
    int64_t runtime_share;
    char *open_paths;       // comma-separated
    char *open_labels;      // comma-separated
    char *open_annotations; // comma-separated
    int64_t unpacked_per_second;
    int64_t flapping_burst;
    int64_t flapping_interval_ms;
};

CONFIG_SECTION(report_settings);

#endif
