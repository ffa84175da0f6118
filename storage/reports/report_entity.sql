-- The resource's row, if it is the one that this report wrote: its parameters are ROW_ENTITY(). Not "NOT is_deleted":
-- on tables that were never analyzed the planner would take a partial index and read all rows of the runtime.
-- fragment: report_row
r.account_id = :account_id AND r.runtime = :runtime AND r.cluster = :cluster AND r.namespace = :namespace
AND r.name = :name
   AND NOT coalesce(r.is_deleted, true)
   AND r.epoch = :epoch::bigint AND r.sequence = :sequence::bigint AND r.observed_at = :observed_at::timestamptz
   AND r.manifest_sha256 = :manifest_sha256::bytea

-- name: rollout_put
INSERT INTO rollouts (account_id, runtime, cluster, namespace, name, uid, phase, message, strategy, revision,
                      desired_replicas, revision_history_limit, current_replicas, ready_replicas, available_replicas,
                      updated_replicas, steps, current_step_index, weight, is_aborted, is_paused, is_promote_full,
                      stable_service, new_service, stable_hash, current_hash, analysis)
SELECT :account_id, :runtime, :cluster, :namespace, :name, :uid, :phase, :message, :strategy, :revision::bigint,
       :desired_replicas::bigint, :revision_history_limit::bigint, :current_replicas::bigint, :ready_replicas::bigint,
       :available_replicas::bigint, :updated_replicas::bigint, :steps::jsonb, :current_step_index::bigint,
       :weight::bigint, :is_aborted::boolean, :is_paused::boolean, :is_promote_full::boolean, :stable_service,
       :new_service, :stable_hash, :current_hash, :analysis::jsonb
  FROM resources r
 WHERE r.api_group = 'argoproj.io' AND r.kind = 'Rollout' AND :{report_row}
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET uid = excluded.uid, phase = excluded.phase, message = excluded.message, strategy = excluded.strategy,
       revision = excluded.revision, desired_replicas = excluded.desired_replicas,
       revision_history_limit = excluded.revision_history_limit, current_replicas = excluded.current_replicas,
       ready_replicas = excluded.ready_replicas, available_replicas = excluded.available_replicas,
       updated_replicas = excluded.updated_replicas, steps = excluded.steps,
       current_step_index = excluded.current_step_index, weight = excluded.weight, is_aborted = excluded.is_aborted,
       is_paused = excluded.is_paused, is_promote_full = excluded.is_promote_full,
       stable_service = excluded.stable_service, new_service = excluded.new_service,
       stable_hash = excluded.stable_hash, current_hash = excluded.current_hash, analysis = excluded.analysis

-- name: replica_set_put
INSERT INTO replica_sets (account_id, runtime, cluster, namespace, name, uid, owner_kind, owner_name, owner_uid,
                          revision, pod_template_hash, desired_replicas, current_replicas, ready_replicas,
                          available_replicas)
SELECT :account_id, :runtime, :cluster, :namespace, :name, :uid, :owner_kind, :owner_name, :owner_uid,
       :revision::bigint, :pod_template_hash, :desired_replicas::bigint, :current_replicas::bigint,
       :ready_replicas::bigint, :available_replicas::bigint
  FROM resources r
 WHERE r.api_group = 'apps' AND r.kind = 'ReplicaSet' AND :{report_row}
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET uid = excluded.uid, owner_kind = excluded.owner_kind, owner_name = excluded.owner_name,
       owner_uid = excluded.owner_uid, revision = excluded.revision, pod_template_hash = excluded.pod_template_hash,
       desired_replicas = excluded.desired_replicas, current_replicas = excluded.current_replicas,
       ready_replicas = excluded.ready_replicas, available_replicas = excluded.available_replicas

-- name: analysis_run_put
INSERT INTO analysis_runs (account_id, runtime, cluster, namespace, name, uid, owner_kind, owner_name, owner_uid,
                           revision, run_type, step_index, phase, message, started_at, successful, failed,
                           inconclusive, errored, metrics)
SELECT :account_id, :runtime, :cluster, :namespace, :name, :uid, :owner_kind, :owner_name, :owner_uid,
       :revision::bigint, :run_type, :step_index::bigint, :phase, :message, :started_at::timestamptz,
       :successful::bigint, :failed::bigint, :inconclusive::bigint, :errored::bigint, :metrics::jsonb
  FROM resources r
 WHERE r.api_group = 'argoproj.io' AND r.kind = 'AnalysisRun' AND :{report_row}
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET uid = excluded.uid, owner_kind = excluded.owner_kind, owner_name = excluded.owner_name,
       owner_uid = excluded.owner_uid, revision = excluded.revision, run_type = excluded.run_type,
       step_index = excluded.step_index, phase = excluded.phase, message = excluded.message,
       started_at = excluded.started_at, successful = excluded.successful, failed = excluded.failed,
       inconclusive = excluded.inconclusive, errored = excluded.errored, metrics = excluded.metrics

-- The row of this run alone; another workflow of the same name has another uid.
-- name: workflow_put
INSERT INTO workflows (account_id, runtime, cluster, namespace, name, epoch, sequence, observed_at, manifest_sha256,
                       uid, version, phase, message, progress, started_at, finished_at, entrypoint, templates,
                       template_name, is_template_cluster_wide, initiator, pipeline_name, pipeline_namespace,
                       pipeline_trigger, project, nodes, conditions, resources_duration, running_pods, labels,
                       workflow_created_at)
SELECT :account_id, :runtime, :cluster, :namespace, :name, :epoch::bigint, :sequence::bigint,
       :observed_at::timestamptz, :manifest_sha256::bytea, :uid, :version, :phase, :message, :progress,
       :started_at::timestamptz, :finished_at::timestamptz, :entrypoint, :templates::jsonb, :template_name,
       :is_template_cluster_wide::boolean, :initiator, :pipeline_name, :pipeline_namespace, :pipeline_trigger,
       :project, :nodes::jsonb, :conditions::jsonb, :resources_duration::jsonb, :running_pods::bigint, :labels::jsonb,
       coalesce(:created_at::timestamptz, :started_at::timestamptz, :observed_at::timestamptz)
  FROM resources r
 WHERE r.api_group = 'argoproj.io' AND r.kind = 'Workflow' AND :{report_row}
ON CONFLICT (account_id, runtime, cluster, namespace, name, uid) DO UPDATE
   SET epoch = excluded.epoch, sequence = excluded.sequence, observed_at = excluded.observed_at, received_at = now(),
       manifest_sha256 = excluded.manifest_sha256, version = excluded.version, phase = excluded.phase,
       message = excluded.message, progress = excluded.progress, started_at = excluded.started_at,
       finished_at = excluded.finished_at, entrypoint = excluded.entrypoint, templates = excluded.templates,
       template_name = excluded.template_name, is_template_cluster_wide = excluded.is_template_cluster_wide,
       initiator = excluded.initiator, pipeline_name = excluded.pipeline_name,
       pipeline_namespace = excluded.pipeline_namespace, pipeline_trigger = excluded.pipeline_trigger,
       project = excluded.project, nodes = excluded.nodes, conditions = excluded.conditions,
       resources_duration = excluded.resources_duration, running_pods = excluded.running_pods,
       labels = excluded.labels
