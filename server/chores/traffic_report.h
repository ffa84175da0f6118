// traffic_report: what `culvertd admin traffic` prints: the hot counters of the last minutes
// (server/chores/traffic.h), asked from Redis on a loop of its own. Main thread of a command.
#ifndef CULVERT_SERVER_CHORES_TRAFFIC_REPORT_H
#define CULVERT_SERVER_CHORES_TRAFFIC_REPORT_H

#include "base/error.h"
#include "server/config/config.h"

// Prints to standard output. ERROR_UNAVAILABLE: no Redis is configured, or it does not answer.
MUST_CHECK enum error_code traffic_report_print(const struct config *config, unsigned minutes, struct error *err);

#endif
