// workflow_store: runs of Argo Workflows, also those that the cluster has forgotten. Reads only: reports write.
#ifndef CULVERT_MODULES_WORKFLOWS_WORKFLOW_STORE_H
#define CULVERT_MODULES_WORKFLOWS_WORKFLOW_STORE_H

#include "storage/sql/store.h"

// filter_json: WorkflowsFilterArgs, checked for types by the API. node: type Workflow, newest first.
void workflow_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                         store_slice_done on_done, void *arg);
void workflow_store_get(struct pg *pg, const char *account_id, struct str uid, store_node_done on_done, void *arg);

#endif
