-- The resource's row, if it is the one that this report wrote: $1 to $9 are report_entity_params(). Not "NOT is_deleted":
-- on tables that were never analyzed the planner would take a partial index and read all rows of the runtime.
-- fragment: report_row
r.account_id = $1 AND r.runtime = $2 AND r.cluster = $3 AND r.namespace = $4 AND r.name = $5
   AND NOT coalesce(r.is_deleted, true)
   AND r.epoch = $6::bigint AND r.sequence = $7::bigint AND r.observed_at = $8::timestamptz
   AND r.manifest_sha256 = $9::bytea

-- name: rollout_put
INSERT INTO rollouts (account_id, runtime, cluster, namespace, name, uid, phase, message, strategy, revision,
                      desired_replicas, revision_history_limit, current_replicas, ready_replicas, available_replicas,
                      updated_replicas, steps, current_step_index, weight, is_aborted, is_paused, is_promote_full,
                      stable_service, new_service, stable_hash, current_hash, analysis)
SELECT $1, $2, $3, $4, $5, $10, $11, $12, $13, $14::bigint, $15::bigint, $16::bigint, $17::bigint, $18::bigint,
       $19::bigint, $20::bigint, $21::jsonb, $22::bigint, $23::bigint, $24::boolean, $25::boolean, $26::boolean, $27,
       $28, $29, $30, $31::jsonb
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
SELECT $1, $2, $3, $4, $5, $10, $11, $12, $13, $14::bigint, $15, $16::bigint, $17::bigint, $18::bigint, $19::bigint
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
SELECT $1, $2, $3, $4, $5, $10, $11, $12, $13, $14::bigint, $15, $16::bigint, $17, $18, $19::timestamptz, $20::bigint,
       $21::bigint, $22::bigint, $23::bigint, $24::jsonb
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
SELECT $1, $2, $3, $4, $5, $6::bigint, $7::bigint, $8::timestamptz, $9::bytea, $10, $11, $12, $13, $14,
       $15::timestamptz, $16::timestamptz, $17, $18::jsonb, $19, $20::boolean, $21, $22, $23, $24, $25, $26::jsonb,
       $27::jsonb, $28::jsonb, $29::bigint, $30::jsonb, coalesce($31::timestamptz, $15::timestamptz, $8::timestamptz)
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
