-- type: Workflow
-- from: culvert.workflows a
-- key: a.workflow_created_at, a.uid
-- scope: a.account_id = :account_id
-- access: workflow, runtime = a.runtime, namespace = a.namespace, cluster = a.cluster, labels = a.labels
-- callers: users
-- join: r = :{runtime_states} AND r.runtime IN (SELECT runtime FROM page) ON r.runtime = a.runtime
-- query: workflows
-- query: workflow(uid = a.uid) BY a.epoch DESC, a.sequence DESC, a.observed_at DESC
-- field: metadata.group = 'argoproj.io'
-- field: metadata.version = a.version
-- field: metadata.kind = 'Workflow'
-- field: metadata.name = a.name
-- field: metadata.description = NULL
-- field: metadata.namespace = a.namespace
-- field: metadata.runtime = a.runtime
-- field: metadata.cluster = a.cluster
-- field: metadata.account = a.account_id
-- field: metadata.labels = pairs(a.labels)
-- field: metadata.annotations = '[]'
-- field: metadata.lastUpdated = time(a.received_at)
-- field: metadata.created = time(a.workflow_created_at)
-- field: metadata.uid = a.uid
-- field: metadata.favorite = false
-- field: metadata.revision = NULL
-- field: errors = '[]'
-- field: projects = :{workflow_projects}
-- field: spec.entrypoint = a.entrypoint
-- field: spec.templates = NULL
-- field: spec.templateNames = a.templates
-- object: spec.workflowTemplateRef = a.template_name IS NOT NULL
-- field: spec.workflowTemplateRef.name = a.template_name
-- field: spec.workflowTemplateRef.group = 'argoproj.io'
-- field: spec.workflowTemplateRef.version = 'v1alpha1'
-- field: spec.workflowTemplateRef.kind = :{workflow_template_kind}
-- field: spec.workflowTemplateRef.namespace = :{workflow_template_namespace}
-- field: status.startedAt = time(a.started_at)
-- field: status.finishedAt = time(a.finished_at)
-- field: status.phase = a.phase
-- field: status.progress = a.progress
-- field: status.message = a.message
-- field: status.nodes = a.nodes
-- field: status.statuses = '[]'
-- field: status.conditions = a.conditions
-- object: status.resourcesDuration = a.resources_duration IS NOT NULL
-- field: status.resourcesDuration.cpu = :{workflow_cpu}
-- field: status.resourcesDuration.memory = :{workflow_memory}
-- field: status.runningPodsCount = a.running_pods
-- field: status.activePodName = :{workflow_active_pod}
-- field: status.failedNodes = :{workflow_failed_nodes}
-- object: initiator = a.initiator IS NOT NULL
-- field: initiator.userName = a.initiator
-- field: initiator.avatarURL = NULL
-- field: eventsPayload = '[]'
-- object: pipeline = a.pipeline_name IS NOT NULL
-- field: pipeline.metadata.group = 'argoproj.io'
-- field: pipeline.metadata.version = 'v1alpha1'
-- field: pipeline.metadata.kind = 'Sensor'
-- field: pipeline.metadata.name = a.pipeline_name
-- field: pipeline.metadata.description = NULL
-- field: pipeline.metadata.namespace = coalesce(a.pipeline_namespace, a.namespace)
-- field: pipeline.metadata.runtime = a.runtime
-- field: pipeline.metadata.cluster = a.cluster
-- field: pipeline.metadata.account = a.account_id
-- field: pipeline.metadata.labels = NULL
-- field: pipeline.metadata.annotations = NULL
-- field: pipeline.metadata.lastUpdated = NULL
-- field: pipeline.metadata.created = NULL
-- field: pipeline.metadata.uid = NULL
-- field: pipeline.metadata.favorite = NULL
-- field: pipeline.metadata.revision = NULL
-- field: pipeline.errors = '[]'
-- field: pipeline.syncStatus = 'UNKNOWN'
-- field: pipeline.healthStatus = NULL
-- field: pipeline.healthMessage = NULL
-- field: pipeline.projects = '[]'
-- field: pipeline.self = NULL
-- field: pipeline.spec.trigger = coalesce(a.pipeline_trigger, '')
-- field: actualManifest = manifest(a.manifest_sha256) ONLY workflow
-- field: url = NULL
-- field: ingressHost = r.ingress_host
-- field: runtimeVersion = r.runtime_version
-- field: sequence = :{entity_sequence}
-- field: freshness = :{workflow_freshness}
-- field: observedAt = time(a.observed_at)
-- field: receivedAt = time(a.received_at)
-- filter: project text = a.project = :value
-- filter: runtime text = a.runtime = :value
-- filter: namespace text = a.namespace = :value
-- filter: groups text[] = 'argoproj.io' = ANY (:value)
-- filter: versions text[] = a.version = ANY (:value)
-- filter: cluster text = a.cluster = :value
-- filter: repositories text[] = :value IS NULL
-- filter: branches text[] = :value IS NULL
-- filter: eventTypes text[] = :value IS NULL
-- filter: initiators text[] = a.initiator = ANY (:value)
-- filter: statuses text[] = a.phase = ANY (:value)
-- filter: startDateFrom timestamptz = a.workflow_created_at >= :value
-- filter: startDateTo timestamptz = a.workflow_created_at <= :value
-- filter: workflowTemplate text = a.template_name = :value
-- filter: workflowTemplateClusterScope boolean = NOT :value OR a.is_template_cluster_wide
-- filter: appNames text[] = :value IS NULL
-- filter: products text[] = :value IS NULL
-- filter: environments text[] = :value IS NULL
-- order: NEWEST = a.workflow_created_at DESC, a.uid DESC
-- index: workflowsIndex
-- facets: workflowFacets
-- facet: STATUS statuses = a.phase
-- facet: RUNTIME runtime = a.runtime
-- facet: NAMESPACE namespace = a.namespace
-- facet: TEMPLATE workflowTemplate = a.template_name
-- facet: INITIATOR initiators = a.initiator
-- facet: PROJECT project = a.project

-- Of one that ended there is no news to wait for.
-- fragment: workflow_freshness
CASE WHEN a.finished_at IS NOT NULL THEN 'live' ELSE :{entity_freshness} END

-- fragment: workflow_projects
CASE WHEN a.project IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(a.project) END

-- fragment: workflow_active_pod
(SELECT n ->> 'id' FROM jsonb_array_elements(a.nodes) n
  WHERE n ->> 'type' = 'Pod' AND n ->> 'phase' = 'Running' LIMIT 1)

-- fragment: workflow_failed_nodes
(SELECT coalesce(json_agg(n), '[]'::json) FROM jsonb_array_elements(a.nodes) n
  WHERE n ->> 'phase' IN ('Failed', 'Error'))

-- fragment: workflow_template_kind
CASE WHEN a.is_template_cluster_wide THEN 'ClusterWorkflowTemplate' ELSE 'WorkflowTemplate' END

-- fragment: workflow_template_namespace
CASE WHEN NOT a.is_template_cluster_wide THEN a.namespace END

-- fragment: workflow_cpu
CASE WHEN jsonb_typeof(a.resources_duration -> 'cpu') = 'number' THEN a.resources_duration ->> 'cpu' END

-- fragment: workflow_memory
CASE WHEN jsonb_typeof(a.resources_duration -> 'memory') = 'number' THEN a.resources_duration ->> 'memory' END
