// resources: what reports of its kind write. Private to modules/resources/.
#ifndef CULVERT_MODULES_RESOURCES_RESOURCES_H
#define CULVERT_MODULES_RESOURCES_RESOURCES_H

#include "storage/reports/report_kind.h"

extern const struct report_kind report_kind_resource;

#endif
