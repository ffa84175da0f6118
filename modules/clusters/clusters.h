// clusters: what reports of its kind write. Private to modules/clusters/.
#ifndef CULVERT_MODULES_CLUSTERS_CLUSTERS_H
#define CULVERT_MODULES_CLUSTERS_CLUSTERS_H

#include "storage/reports/report_kind.h"

extern const struct report_kind report_kind_cluster;

#endif
