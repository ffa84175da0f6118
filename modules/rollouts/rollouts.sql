-- type: Rollout
-- from: :{rollout_rows} t
-- key: t.runtime, t.cluster, t.namespace, t.name
-- scope: t.account_id = :account_id
-- access: rollout, runtime = t.runtime, namespace = t.application_namespace, cluster = t.application_cluster, git_source = t.application_git_source, product = t.application_product, labels = t.application_labels
-- ruled: t.has_application
-- callers: users
-- versioned: yes
-- join: r = :{runtime_states} AND r.runtime IN (SELECT runtime FROM page) ON r.runtime = t.runtime
-- query: rollouts
-- query: rollout(runtime = t.runtime, name = t.name, namespace = t.namespace, cluster = t.cluster)
-- field: metadata.group = t.api_group
-- field: metadata.version = t.version
-- field: metadata.kind = t.kind
-- field: metadata.name = t.name
-- field: metadata.description = NULL
-- field: metadata.namespace = t.namespace
-- field: metadata.runtime = t.runtime
-- field: metadata.cluster = t.cluster
-- field: metadata.account = t.account_id
-- field: metadata.labels = pairs(t.labels)
-- field: metadata.annotations = '[]'
-- field: metadata.lastUpdated = time(t.received_at)
-- field: metadata.created = time(t.resource_created_at)
-- field: metadata.uid = t.uid
-- field: metadata.favorite = false
-- field: metadata.revision = NULL
-- field: errors = t.source_errors
-- field: version = NULL
-- field: latest = true
-- field: source.appName = nullif(t.application_name, '')
-- field: source.appNamespace = nullif(t.application_namespace, '')
-- field: source.repoURL = t.source_repo_url
-- field: source.path = t.source_path
-- field: source.fileURL = NULL
-- field: source.revision = t.source_revision
-- field: source.commitMessage = t.commit_message
-- field: source.commitDate = t.commit_date
-- field: source.commitURL = NULL
-- field: source.commitAuthor = t.commit_author
-- field: source.profileURL = NULL
-- field: source.avatarURL = NULL
-- field: source.gitManifest = NULL
-- field: source.resourceAction = NULL
-- field: syncStatus = coalesce(t.sync_status, 'UNKNOWN')
-- field: healthStatus = :{rollout_health}
-- field: healthMessage = coalesce(t.health_message, t.message)
-- field: healthSource = t.health_source
-- field: desiredManifest = manifest(t.desired_sha256) ONLY rollout
-- field: actualManifest = manifest(t.manifest_sha256) ONLY rollout
-- field: projects = '[]'
-- field: spec.strategy.name = t.strategy
-- field: spec.strategy.newImage = coalesce(t.images ->> 0, '')
-- field: spec.strategy.steps = :{rollout_steps}
-- field: spec.strategy.currentService = t.stable_service
-- field: spec.strategy.newService = t.new_service
-- field: spec.desiredReplicas = t.desired_replicas
-- field: spec.revisionHistoryLimit = t.revision_history_limit
-- field: status.currentStepIndex = t.current_step_index
-- field: status.phase = t.phase
-- field: status.message = t.message
-- field: status.readyReplicas = t.ready_replicas
-- field: status.currentReplicas = t.current_replicas
-- field: status.availableReplicas = t.available_replicas
-- field: status.updatedReplicas = t.updated_replicas
-- field: status.weightOfNew = t.weight
-- field: status.abort = t.is_aborted
-- field: status.paused = t.is_paused
-- field: status.promoteFull = t.is_promote_full
-- object: status.canary = t.strategy = 'canary'
-- field: status.canary.currentStepAnalysisRunStatus = t.analysis -> 'step'
-- field: status.canary.backgroundAnalysisRunStatus = t.analysis -> 'background'
-- object: status.blueGreen = t.strategy = 'blueGreen'
-- field: status.blueGreen.prePromotionAnalysisRunStatus = t.analysis -> 'prePromotion'
-- field: status.blueGreen.postPromotionAnalysisRunStatus = t.analysis -> 'postPromotion'
-- field: revision = t.revision
-- field: stablePodHash = t.stable_hash
-- field: currentPodHash = t.current_hash
-- field: images = :{rollout_images}
-- field: replicaSets = :{rollout_replica_sets}
-- field: analysisRuns = :{rollout_analysis_runs}
-- field: sequence = t.epoch || '.' || t.sequence
-- field: freshness = :{rollout_freshness}
-- field: observedAt = time(t.observed_at)
-- field: receivedAt = time(t.received_at)
-- field: transitions = :{rollout_transitions}
-- filter: project text = t.application_project = :value
-- filter: runtime text = t.runtime = :value
-- filter: group text = t.api_group = :value
-- filter: version text = t.version = :value
-- filter: cluster text = t.cluster = :value
-- filter: namespace text = t.namespace = :value
-- filter: name text = t.name = :value
-- filter: applicationName text = t.application_name = :value
-- filter: phases text[] = t.phase = ANY (:value)
-- order: PLACE = key
-- order: NAME = t.name, t.namespace, t.cluster, t.runtime
-- order: PHASE = t.phase, t.runtime, t.cluster, t.namespace, t.name
-- index: rolloutsIndex
-- label: PLACE = t.runtime || ' ' || t.namespace || ' ' || t.name
-- label: PHASE = t.phase || ' ' || t.name
-- facets: rolloutFacets
-- facet: PHASE phases = t.phase
-- facet: RUNTIME runtime = t.runtime
-- facet: CLUSTER cluster = t.cluster
-- facet: NAMESPACE namespace = t.namespace
-- facet: APPLICATION applicationName = nullif(t.application_name, '')
-- facet: PROJECT project = t.application_project

-- A rollout, its resource, and what rules see of its application.
-- fragment: rollout_rows
(SELECT t.*, x.version, x.labels, x.images, x.application_namespace, x.application_name, x.sync_status, x.health_status,
        x.health_message, x.health_source, x.source_repo_url, x.source_path, x.source_revision, x.source_errors,
        x.commit_message, x.commit_author, x.commit_date, x.resource_created_at, x.manifest_sha256, x.desired_sha256,
        x.epoch, x.sequence, x.observed_at, x.received_at, p.has_application, p.application_cluster,
        p.application_git_source, p.application_product, p.application_labels, p.application_project
   FROM culvert.rollouts t
  CROSS JOIN :{resource_of}
   LEFT JOIN :{application_of}
  WHERE t.api_group = 'argoproj.io' AND t.kind = 'Rollout')

-- fragment: rollout_transitions
(:{transition_nodes}
   FROM (SELECT *
           FROM culvert.transitions y
          WHERE y.account_id = t.account_id AND y.application_name = t.application_name
            AND y.runtime = t.runtime AND y.kind = 'Rollout' AND y.namespace = t.namespace AND y.name = t.name
            AND y.cluster = t.cluster AND y.api_group = 'argoproj.io'
          ORDER BY y.number DESC
          LIMIT 20) y)

-- fragment: rollout_freshness
entity_freshness(t.epoch, r.confirmed_epoch, r.tunnel_freshness, r.unconfirmed_freshness, r.http_freshness)

-- What every object of a cluster says of itself; a: its row in resources.
-- fragment: resource_metadata
json_build_object(
    'group', a.api_group, 'version', a.version, 'kind', a.kind, 'name', a.name, 'description', NULL,
    'namespace', a.namespace, 'runtime', a.runtime, 'cluster', a.cluster, 'account', a.account_id,
    'labels', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key), '[]'::json)
                 FROM jsonb_each_text(a.labels) l),
    'annotations', '[]'::json, 'lastUpdated', to_char(a.received_at, :{rfc3339}),
    'created', to_char(a.resource_created_at, :{rfc3339}), 'uid', a.uid, 'favorite', false, 'revision', NULL)

-- What Argo CD says of its health, or else what the rollout says itself.
-- fragment: rollout_health
coalesce(t.health_status, CASE t.phase WHEN 'Healthy' THEN 'HEALTHY' WHEN 'Degraded' THEN 'DEGRADED'
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
   JOIN :{resource_of_part})

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
             AND s.current_replicas > 0), t.images)

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
   JOIN :{resource_of_part})

-- fragment: analysis_run_node
json_build_object(
    'metadata', :{resource_metadata}, 'errors', '[]'::json, 'revision', coalesce(b.revision, 0), 'type', b.run_type,
    'stepIndex', b.step_index, 'startedAt', to_char(b.started_at, :{rfc3339}),
    'status', json_build_object(
        'message', b.message, 'metricResults', b.metrics, 'totalSuccessful', b.successful, 'totalFailed', b.failed,
        'totalInconclusive', b.inconclusive, 'totalError', b.errored, 'phase', b.phase),
    'observedAt', to_char(a.observed_at, :{rfc3339}), 'receivedAt', to_char(a.received_at, :{rfc3339}))

-- Behind the last step all have passed.
-- name: rollout_step_status
SELECT json_build_object('status', CASE
           WHEN nullif(:step, '') IS NULL AND t.current_step_index >= jsonb_array_length(t.steps)
                AND t.current_step_index > 0 THEN 'PASSED'
           ELSE s.node -> coalesce(nullif(:step, '')::bigint, t.current_step_index)::integer -> 'details' ->> 'status' END)
  FROM (SELECT t.*
          FROM :{rollout_rows} t
         WHERE t.account_id = :account_id AND t.runtime = :runtime AND (:name = '' OR t.name = :name)
           AND (:namespace = '' OR t.namespace = :namespace) AND (:cluster = '' OR t.cluster = :cluster)
         ORDER BY t.phase = 'Healthy', t.cluster, t.namespace, t.name
         LIMIT 1) t
 CROSS JOIN LATERAL (SELECT :{rollout_steps} AS node) s
