-- Times as keys of pages: exact, and in the form that cursors carry.
-- fragment: rfc3339_micros
'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'

-- a: the workflow, r: its runtime's state. Of one that ended there is no news to wait for.
-- fragment: workflow_freshness
CASE WHEN a.finished_at IS NOT NULL THEN 'live' ELSE :{entity_freshness} END

-- fragment: workflow_node
jsonb_build_object(
    'metadata', json_build_object(
        'group', 'argoproj.io', 'version', a.version, 'kind', 'Workflow', 'name', a.name, 'description', NULL,
        'namespace', a.namespace, 'runtime', a.runtime, 'cluster', a.cluster, 'account', a.account_id,
        'labels', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key),
                                   '[]'::json)
                     FROM jsonb_each_text(a.labels) l),
        'annotations', '[]'::json, 'lastUpdated', to_char(a.received_at, :{rfc3339}),
        'created', to_char(a.workflow_created_at, :{rfc3339}), 'uid', a.uid, 'favorite', false, 'revision', NULL),
    'errors', '[]'::json,
    'projects', CASE WHEN a.project IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(a.project) END,
    'spec', json_build_object(
        'entrypoint', a.entrypoint,
        'templates', NULL, 'templateNames', a.templates,
        'workflowTemplateRef', CASE WHEN a.template_name IS NOT NULL THEN json_build_object(
            'name', a.template_name, 'group', 'argoproj.io', 'version', 'v1alpha1',
            'kind', CASE WHEN a.is_template_cluster_wide THEN 'ClusterWorkflowTemplate' ELSE 'WorkflowTemplate' END,
            'namespace', CASE WHEN NOT a.is_template_cluster_wide THEN a.namespace END) END),
    'status', json_build_object(
        'startedAt', to_char(a.started_at, :{rfc3339}), 'finishedAt', to_char(a.finished_at, :{rfc3339}),
        'phase', a.phase, 'progress', a.progress, 'message', a.message, 'nodes', a.nodes, 'statuses', '[]'::json,
        'conditions', a.conditions,
        'resourcesDuration', CASE WHEN a.resources_duration IS NOT NULL THEN json_build_object(
            'cpu', CASE WHEN jsonb_typeof(a.resources_duration -> 'cpu') = 'number'
                        THEN (a.resources_duration ->> 'cpu')::numeric END,
            'memory', CASE WHEN jsonb_typeof(a.resources_duration -> 'memory') = 'number'
                           THEN (a.resources_duration ->> 'memory')::numeric END) END,
        'runningPodsCount', a.running_pods,
        'activePodName', (SELECT n ->> 'id' FROM jsonb_array_elements(a.nodes) n
                           WHERE n ->> 'type' = 'Pod' AND n ->> 'phase' = 'Running' LIMIT 1),
        'failedNodes', (SELECT coalesce(json_agg(n), '[]'::json) FROM jsonb_array_elements(a.nodes) n
                         WHERE n ->> 'phase' IN ('Failed', 'Error'))),
    'initiator', CASE WHEN a.initiator IS NOT NULL THEN json_build_object('userName', a.initiator, 'avatarURL', NULL)
                 END,
    'eventsPayload', '[]'::json,
    'pipeline', CASE WHEN a.pipeline_name IS NOT NULL THEN json_build_object(
        'metadata', json_build_object(
            'group', 'argoproj.io', 'version', 'v1alpha1', 'kind', 'Sensor', 'name', a.pipeline_name,
            'namespace', coalesce(a.pipeline_namespace, a.namespace), 'runtime', a.runtime, 'cluster', a.cluster,
            'account', a.account_id),
        'errors', '[]'::json, 'syncStatus', 'UNKNOWN', 'projects', '[]'::json,
        'spec', json_build_object('trigger', coalesce(a.pipeline_trigger, ''))) END,
    'url', NULL, 'ingressHost', r.ingress_host, 'runtimeVersion', r.runtime_version,
    'sequence', :{entity_sequence}, 'freshness', :{workflow_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339}),
    'receivedAt', to_char(a.received_at, :{rfc3339}))

-- Newest first. Empty texts are no filter; lists are JSON arrays of which any value will do.
-- fragment: workflow_filter
a.account_id = :account_id
   AND (a.workflow_created_at, a.uid) < (coalesce(nullif(:below_time, '')::timestamptz, 'infinity'), :below_key)
   AND (a.workflow_created_at, a.uid) > (coalesce(nullif(:above_time, '')::timestamptz, '-infinity'), :above_key)
   AND (:project = '' OR a.project = :project) AND (:runtime = '' OR a.runtime = :runtime)
   AND (:namespace = '' OR a.namespace = :namespace)
   AND (:cluster = '' OR a.cluster = :cluster) AND (:template_name = '' OR a.template_name = :template_name)
   AND (:phases::jsonb = '[]' OR :phases::jsonb ? a.phase)
   AND (:initiators::jsonb = '[]' OR :initiators::jsonb ? coalesce(a.initiator, ''))
   AND (nullif(:from_time, '') IS NULL OR a.workflow_created_at >= nullif(:from_time, '')::timestamptz)
   AND (nullif(:until_time, '') IS NULL OR a.workflow_created_at <= nullif(:until_time, '')::timestamptz)
   AND (NOT :cluster_templates_only::boolean OR a.is_template_cluster_wide)
   AND (:versions::jsonb = '[]' OR :versions::jsonb ? a.version)

-- list: workflow_list
-- order: a.workflow_created_at DESC, a.uid DESC
WITH r AS MATERIALIZED (:{runtime_states})
SELECT :{workflow_node} || '{"actualManifest": null}', to_char(a.workflow_created_at, :{rfc3339_micros}), a.uid
  FROM (SELECT * FROM workflows a
         WHERE :{workflow_filter}
         ORDER BY :{order}
         LIMIT :limit::bigint) a
  JOIN r ON r.runtime = a.runtime
 ORDER BY :{order}

-- name: workflow_get
WITH r AS MATERIALIZED (:{runtime_states})
SELECT :{workflow_node}, live.encoding, live.plain_bytes, encode(live.content, 'hex')
  FROM (SELECT * FROM workflows a
         WHERE a.account_id = :account_id AND a.uid = :uid
         ORDER BY a.epoch DESC, a.sequence DESC, a.observed_at DESC
         LIMIT 1) a
  JOIN r ON r.runtime = a.runtime
  LEFT JOIN manifests live ON live.account_id = :account_id AND live.sha256 = a.manifest_sha256
