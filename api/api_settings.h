// api_settings: what a client of the API listener may ask for. Owner: api/.
// Read-only once loaded; any thread.
#ifndef CULVERT_API_API_SETTINGS_H
#define CULVERT_API_API_SETTINGS_H

#include "base/config/config.h"

struct api_settings {
    int64_t connections_max;
    int64_t connections_per_address_max;
    int64_t account_requests_per_second;
    int64_t user_requests_per_second;
    int64_t request_timeout_ms;
    int64_t body_bytes_max;
    int64_t events_bytes_max;
    int64_t compress_bytes_min;
    int64_t compress_bytes_max;
    int64_t head_bytes_max;
    int64_t graphql_tokens_max;
    int64_t graphql_depth_max;
    int64_t graphql_cost_max;
    int64_t graphql_plans_max;
    int64_t graphql_counts_max;
    int64_t graphql_count_interval_ms;
    int64_t graphql_documents_max;
    char *graphql_documents_file;
    bool graphql_documents_only;
    bool graphql_introspection;
};

CONFIG_SECTION(api_settings);

#endif
