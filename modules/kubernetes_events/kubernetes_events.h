// kubernetes_events: Kubernetes Events of reported objects: what a report of one writes, the list,
// and how long they are kept.
#ifndef CULVERT_MODULES_KUBERNETES_EVENTS_KUBERNETES_EVENTS_H
#define CULVERT_MODULES_KUBERNETES_EVENTS_KUBERNETES_EVENTS_H

#include "storage/reports/report_kind.h"

extern const struct report_kind report_kind_kubernetes_event;

#endif
