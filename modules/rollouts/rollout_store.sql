-- What every object of a cluster says of itself; a: its row in resources.
-- fragment: resource_metadata
json_build_object(
    'group', a.api_group, 'version', a.version, 'kind', a.kind, 'name', a.name, 'description', NULL,
    'namespace', a.namespace, 'runtime', a.runtime, 'cluster', a.cluster, 'account', a.account_id,
    'labels', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key), '[]'::json)
                 FROM jsonb_each_text(a.labels) l),
    'annotations', '[]'::json, 'lastUpdated', to_char(a.received_at, :{rfc3339}),
    'created', to_char(a.resource_created_at, :{rfc3339}), 'uid', a.uid, 'favorite', false, 'revision', NULL)

-- fragment: resource_source
json_build_object(
    'appName', nullif(a.application_name, ''), 'appNamespace', nullif(a.application_namespace, ''), 'gitSource', NULL,
    'repoURL', a.source_repo_url, 'path', a.source_path, 'fileURL', NULL, 'revision', a.source_revision,
    'commitMessage', a.commit_message, 'commitDate', a.commit_date, 'commitURL', NULL,
    'commitAuthor', a.commit_author, 'profileURL', NULL, 'avatarURL', NULL, 'gitManifest', NULL,
    'resourceAction', NULL)

-- What Argo CD says of its health, or else what the rollout says itself.
-- fragment: rollout_health
coalesce(a.health_status, CASE t.phase WHEN 'Healthy' THEN 'HEALTHY' WHEN 'Degraded' THEN 'DEGRADED'
                                       WHEN 'Progressing' THEN 'PROGRESSING' WHEN 'Paused' THEN 'SUSPENDED'
                                       ELSE 'UNKNOWN' END)

-- The spec's steps, and where the rollout is among them.
-- fragment: rollout_steps
(SELECT json_agg(json_build_object(
            'index', s.index - 1,
            'type', coalesce((SELECT k FROM jsonb_object_keys(CASE jsonb_typeof(s.spec) WHEN 'object' THEN s.spec
                                                                    ELSE '{}' END) k ORDER BY k LIMIT 1), 'unknown'),
            'setWeight', CASE WHEN jsonb_typeof(s.spec -> 'setWeight') = 'number'
                              THEN least(greatest((s.spec ->> 'setWeight')::numeric, 0), 100)::integer END,
            'spec', s.spec::text,
            'details', json_build_object('status', CASE
                WHEN s.index - 1 < t.current_step_index THEN 'PASSED'
                WHEN s.index - 1 > coalesce(t.current_step_index, -1) THEN 'PENDING'
                WHEN t.is_aborted THEN 'TERMINATED'
                WHEN t.phase = 'Degraded' THEN 'FAILED'
                WHEN t.is_paused AND s.spec -> 'pause' = '{}' THEN 'PAUSED_INDEFINITE'
                ELSE 'ACTIVE' END))
        ORDER BY s.index)
   FROM jsonb_array_elements(t.steps) WITH ORDINALITY s (spec, index))

-- The replica sets that a rollout has, newest revision first.
-- fragment: rollout_replica_sets
(SELECT coalesce(json_agg(:{replica_set_node} ORDER BY b.revision DESC NULLS LAST, b.name), '[]'::json)
   FROM (SELECT s.*
           FROM replica_sets s
          WHERE s.account_id = t.account_id AND s.runtime = t.runtime AND s.cluster = t.cluster
            AND s.namespace = t.namespace AND s.owner_kind = 'Rollout' AND s.owner_name = t.name
          ORDER BY s.revision DESC NULLS LAST, s.name
          LIMIT 100) b
   JOIN resources a ON a.account_id = b.account_id AND a.runtime = b.runtime AND a.cluster = b.cluster
                   AND a.api_group = b.api_group AND a.kind = b.kind AND a.namespace = b.namespace AND a.name = b.name
                   AND NOT a.is_deleted
                   AND (a.presence IS NULL OR a.presence = 'UNREADABLE'))

-- Those that run: of the replica sets that have pods, which are two while a canary is under way.
-- fragment: rollout_images
coalesce((SELECT jsonb_agg(DISTINCT i ORDER BY i)
            FROM replica_sets s
            JOIN resources b ON b.account_id = s.account_id AND b.runtime = s.runtime AND b.cluster = s.cluster
                            AND b.api_group = s.api_group AND b.kind = s.kind AND b.namespace = s.namespace
                            AND b.name = s.name AND NOT b.is_deleted
           CROSS JOIN LATERAL jsonb_array_elements(b.images) i
           WHERE s.account_id = t.account_id AND s.runtime = t.runtime AND s.cluster = t.cluster
             AND s.namespace = t.namespace AND s.owner_kind = 'Rollout' AND s.owner_name = t.name
             AND s.current_replicas > 0), a.images)

-- fragment: replica_set_node
json_build_object(
    'metadata', :{resource_metadata}, 'errors', '[]'::json, 'revision', b.revision,
    'image', coalesce(a.images ->> 0, ''), 'images', a.images, 'podTemplateHash', b.pod_template_hash,
    'replicas', b.desired_replicas, 'currentReplicas', coalesce(b.current_replicas, 0),
    'readyReplicas', coalesce(b.ready_replicas, 0), 'availableReplicas', coalesce(b.available_replicas, 0),
    'updatedReplicas', 0, 'observedAt', to_char(a.observed_at, :{rfc3339}),
    'receivedAt', to_char(a.received_at, :{rfc3339}))

-- fragment: rollout_analysis_runs
(SELECT coalesce(json_agg(:{analysis_run_node} ORDER BY b.started_at DESC NULLS LAST, b.name), '[]'::json)
   FROM (SELECT s.*
           FROM analysis_runs s
          WHERE s.account_id = t.account_id AND s.runtime = t.runtime AND s.cluster = t.cluster
            AND s.namespace = t.namespace AND s.owner_kind = 'Rollout' AND s.owner_name = t.name
          ORDER BY s.started_at DESC NULLS LAST, s.name
          LIMIT 100) b
   JOIN resources a ON a.account_id = b.account_id AND a.runtime = b.runtime AND a.cluster = b.cluster
                   AND a.api_group = b.api_group AND a.kind = b.kind AND a.namespace = b.namespace AND a.name = b.name
                   AND NOT a.is_deleted
                   AND (a.presence IS NULL OR a.presence = 'UNREADABLE'))

-- fragment: analysis_run_node
json_build_object(
    'metadata', :{resource_metadata}, 'errors', '[]'::json, 'revision', coalesce(b.revision, 0), 'type', b.run_type,
    'stepIndex', b.step_index, 'startedAt', to_char(b.started_at, :{rfc3339}),
    'status', json_build_object(
        'message', b.message, 'metricResults', b.metrics, 'totalSuccessful', b.successful, 'totalFailed', b.failed,
        'totalInconclusive', b.inconclusive, 'totalError', b.errored, 'phase', b.phase),
    'observedAt', to_char(a.observed_at, :{rfc3339}), 'receivedAt', to_char(a.received_at, :{rfc3339}))

-- t: the rollout, a: its resource, r: its runtime's state. Without its manifests.
-- fragment: rollout_node
jsonb_build_object(
    'metadata', :{resource_metadata}, 'errors', a.source_errors, 'version', NULL, 'latest', true,
    'source', :{resource_source}, 'syncStatus', coalesce(a.sync_status, 'UNKNOWN'),
    'healthStatus', :{rollout_health}, 'healthMessage', coalesce(a.health_message, t.message),
    'healthSource', a.health_source, 'projects', '[]'::json,
    'spec', json_build_object(
        'strategy', json_build_object(
            'name', t.strategy, 'newImage', coalesce(a.images ->> 0, ''), 'steps', :{rollout_steps},
            'currentService', t.stable_service, 'newService', t.new_service),
        'desiredReplicas', t.desired_replicas, 'revisionHistoryLimit', t.revision_history_limit),
    'status', json_build_object(
        'currentStepIndex', t.current_step_index, 'phase', t.phase, 'message', t.message,
        'readyReplicas', t.ready_replicas, 'currentReplicas', t.current_replicas,
        'availableReplicas', t.available_replicas, 'updatedReplicas', t.updated_replicas, 'weightOfNew', t.weight,
        'abort', t.is_aborted, 'paused', t.is_paused, 'promoteFull', t.is_promote_full,
        'canary', CASE WHEN t.strategy = 'canary' THEN json_build_object(
            'currentStepAnalysisRunStatus', t.analysis -> 'step',
            'backgroundAnalysisRunStatus', t.analysis -> 'background') END,
        'blueGreen', CASE WHEN t.strategy = 'blueGreen' THEN json_build_object(
            'prePromotionAnalysisRunStatus', t.analysis -> 'prePromotion',
            'postPromotionAnalysisRunStatus', t.analysis -> 'postPromotion') END),
    'revision', t.revision, 'stablePodHash', t.stable_hash, 'currentPodHash', t.current_hash, 'images', :{rollout_images},
    'replicaSets', :{rollout_replica_sets}, 'analysisRuns', :{rollout_analysis_runs},
    'sequence', :{entity_sequence}, 'freshness', :{entity_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339}),
    'receivedAt', to_char(a.received_at, :{rfc3339}))

-- fragment: rollout_resource
resources a ON a.account_id = t.account_id AND a.runtime = t.runtime AND a.cluster = t.cluster
           AND a.api_group = t.api_group AND a.kind = t.kind AND a.namespace = t.namespace AND a.name = t.name
           AND NOT a.is_deleted
           AND (a.presence IS NULL OR a.presence = 'UNREADABLE')

-- Empty texts are no filter. :project is that of the application.
-- fragment: rollout_filter
t.account_id = :account_id
   AND :{page}
   AND (:project = '' OR EXISTS (
        SELECT FROM applications p
         WHERE p.account_id = t.account_id AND p.runtime = t.runtime AND p.namespace = a.application_namespace
           AND p.name = a.application_name AND p.project = :project))
   AND (:runtime = '' OR t.runtime = :runtime) AND (:cluster = '' OR t.cluster = :cluster)
   AND (:namespace = '' OR t.namespace = :namespace)
   AND (:name = '' OR t.name = :name) AND (:application_name = '' OR a.application_name = :application_name)
   AND (:phases::jsonb = '[]' OR :phases::jsonb ? t.phase)
   AND (:api_group = '' OR a.api_group = :api_group) AND (:version = '' OR a.version = :version)

-- list: rollout_list
-- order: t.runtime, t.cluster, t.namespace, t.name
WITH r AS MATERIALIZED (:{runtime_states})
SELECT :{rollout_node} || '{"desiredManifest": null, "actualManifest": null}', :{keys}
  FROM (SELECT t.*
          FROM rollouts t
          JOIN :{rollout_resource}
         WHERE :{rollout_filter}
         ORDER BY :{order}
         LIMIT :limit::bigint) t
  JOIN :{rollout_resource}
  JOIN r ON r.runtime = t.runtime
 ORDER BY :{order}

-- The node, then two manifests: live, desired.
-- name: rollout_get
WITH r AS MATERIALIZED (:{runtime_states} AND r.runtime = :runtime)
SELECT :{rollout_node}, live.encoding, live.plain_bytes, encode(live.content, 'hex'), desired.encoding,
       desired.plain_bytes, encode(desired.content, 'hex')
  FROM (SELECT t.*
          FROM rollouts t
          JOIN :{rollout_resource}
         WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.name = :name
           AND (:namespace = '' OR t.namespace = :namespace)
           AND (:cluster = '' OR t.cluster = :cluster)
         ORDER BY t.cluster, t.namespace
         LIMIT 1) t
  JOIN :{rollout_resource}
  JOIN r ON r.runtime = t.runtime
  LEFT JOIN manifests live ON live.account_id = :account_id AND live.sha256 = a.manifest_sha256
  LEFT JOIN manifests desired ON desired.account_id = :account_id AND desired.sha256 = a.desired_sha256

-- Behind the last step all have passed.
-- name: rollout_step_status
SELECT json_build_object('status', CASE
           WHEN nullif(:step, '') IS NULL AND t.current_step_index >= jsonb_array_length(t.steps)
                AND t.current_step_index > 0 THEN 'PASSED'
           ELSE s.node -> coalesce(nullif(:step, '')::bigint, t.current_step_index)::integer -> 'details' ->> 'status' END)
  FROM (SELECT t.*
          FROM rollouts t
          JOIN :{rollout_resource}
         WHERE t.account_id = :account_id AND t.runtime = :runtime AND (:name = '' OR t.name = :name)
           AND (:namespace = '' OR t.namespace = :namespace) AND (:cluster = '' OR t.cluster = :cluster)
         ORDER BY t.phase = 'Healthy', t.cluster, t.namespace, t.name
         LIMIT 1) t
 CROSS JOIN LATERAL (SELECT :{rollout_steps} AS node) s
