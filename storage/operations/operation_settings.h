// operation_settings: changes to clusters that users ask for. Owner:
// storage/operations/operation_delivery.h. Read-only once loaded; any thread.
#ifndef CULVERT_STORAGE_OPERATIONS_OPERATION_SETTINGS_H
#define CULVERT_STORAGE_OPERATIONS_OPERATION_SETTINGS_H

#include "base/config/config.h"

struct operation_settings {
    int64_t interval_ms;
    int64_t resend_after_ms;
    int64_t run_max_ms;
    int64_t batch_count;
    int64_t open_max;
};

CONFIG_SECTION(operation_settings);

#endif
