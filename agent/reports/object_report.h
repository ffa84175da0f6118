// object_report: from an object of the cluster to the outbox: its health, what Argo CD says of it,
// and what of its content may leave. Embedded in the reporter, which gives what it is made with; its
// loop.
#ifndef CULVERT_AGENT_OBJECT_REPORT_H
#define CULVERT_AGENT_OBJECT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/argo/argo_view.h"
#include "agent/reports/destinations.h"
#include "agent/reports/inventory.h"
#include "agent/reports/outbox.h"
#include "tunnel/wire/redaction.h"

struct object_report {
    struct argo_view *argo; // NULL: no token for Argo CD's API
    struct redaction *redaction;
    struct outbox *outbox;
    struct destinations *destinations;
    bool takes_details; // the platform takes the details of records (tunnel/wire/report.h)
    uint64_t refused;   // objects that found no room in the outbox, or could not be read
};

// cluster: empty for the agent's own. object is changed. True: something waits in the outbox to be
// written.
bool object_report_put(struct object_report *report, struct str cluster, struct inventory_resource *resource,
                       json_t *object);
// Of an object that an application names and that is not at hand: its name, and what Argo CD's tree
// has of it. presence: WIRE_PRESENCE_*; plural: as in collector_events.on_absent.
bool object_report_put_absent(struct object_report *report, struct str cluster, struct inventory_resource *resource,
                              const char *presence, const char *plural);
void object_report_delete(struct object_report *report, struct str cluster, const struct inventory_resource *resource);

#endif
