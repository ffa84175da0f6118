// applications: what reports of its kind write. Private to modules/applications/.
#ifndef CULVERT_MODULES_APPLICATIONS_APPLICATIONS_H
#define CULVERT_MODULES_APPLICATIONS_APPLICATIONS_H

#include "storage/reports/report_kind.h"

extern const struct report_kind report_kind_application;

#endif
