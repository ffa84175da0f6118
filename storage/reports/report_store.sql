-- Every transaction of reports writes this row: answers are kept for as long as it stays (answer_store.sql).
-- Takes the runtime's position row, which makes transactions of one runtime follow each other, and moves it forward.
-- Without the runtime there is no row, and no report of it gets in: every statement below asks for it.
-- name: report_open
INSERT INTO report_positions AS p (account_id, runtime, epoch, sequence, tunnel_observed_at, tunnel_received_at,
                                   http_observed_at, http_received_at)
SELECT account_id, runtime, :epoch::bigint, :sequence::bigint, :tunnel_observed_at::timestamptz,
       CASE WHEN :tunnel_observed_at::timestamptz IS NOT NULL THEN now() END, :http_observed_at::timestamptz,
       CASE WHEN :http_observed_at::timestamptz IS NOT NULL THEN now() END
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
   FOR KEY SHARE
ON CONFLICT (account_id, runtime) DO UPDATE
   SET epoch = greatest(p.epoch, excluded.epoch),
       sequence = CASE WHEN excluded.epoch > p.epoch THEN excluded.sequence
                       WHEN excluded.epoch = p.epoch THEN greatest(p.sequence, excluded.sequence)
                       ELSE p.sequence END,
       tunnel_observed_at = coalesce(excluded.tunnel_observed_at, p.tunnel_observed_at),
       tunnel_received_at = coalesce(excluded.tunnel_received_at, p.tunnel_received_at),
       http_observed_at = coalesce(excluded.http_observed_at, p.http_observed_at),
       http_received_at = coalesce(excluded.http_received_at, p.http_received_at)
RETURNING 1

-- Plans are kept that were made when the tables were empty: all that follows goes by keys (migrations/0016).
-- name: report_by_key
SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)

-- Whoever writes something adds to its runtime's counter what that takes: bytes + rows * 2^40 (migrations/0026). It was
-- set up by storage_open, and the transaction ends with storage_add.
-- fragment: one_row
1099511627776

-- name: report_blob
INSERT INTO manifests (account_id, sha256, encoding, plain_bytes, content, runtime, added)
VALUES (:account_id, :sha256, :encoding::smallint, :plain_bytes::integer, :content, :runtime,
       128 + octet_length(:content::bytea))
ON CONFLICT (account_id, sha256) DO UPDATE SET touched_at = now(), added = 0
 WHERE manifests.touched_at < now() - interval '30 minutes'
RETURNING set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- fragment: runtime_is_there
EXISTS (SELECT FROM report_positions WHERE account_id = :account_id AND runtime = :runtime)

-- Of such a row (p). Sessions before the fence were compared or sent whole by a newer one: what of them comes late is
-- dropped.
-- fragment: runtime_row
report_positions p WHERE p.account_id = :account_id AND p.runtime = :runtime

-- fragment: fence_epoch
(SELECT fence_epoch FROM report_positions WHERE account_id = :account_id AND runtime = :runtime)

-- A tunnel's word by (epoch, sequence), over anything said by HTTP. Words by HTTP among themselves: two about one object
-- (uid) by its resourceVersion, since not all carry a time of their own and clocks differ; about two objects that had the
-- name after each other, by which was made later. What is left by the time of observation, and the greater manifest hash
-- where even that is the same, so that every order ends alike.
-- fragment: is_later
(excluded.observed_at, coalesce(excluded.manifest_sha256, '')) > (t.observed_at, coalesce(t.manifest_sha256, ''))

-- fragment: is_same_object
excluded.uid = t.uid AND excluded.uid <> ''

-- fragment: is_other_object
excluded.uid <> t.uid AND excluded.uid <> '' AND t.uid <> ''

-- fragment: application_is_newer
(excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)
    OR (excluded.epoch = 0 AND t.epoch = 0 AND CASE
        WHEN :{is_same_object} AND excluded.resource_version <> t.resource_version
            THEN excluded.resource_version > t.resource_version
        WHEN :{is_other_object} AND (excluded.application_created_at, excluded.resource_version) <
                                    (t.application_created_at, t.resource_version) THEN false
        WHEN :{is_other_object} AND (excluded.application_created_at, excluded.resource_version) >
                                    (t.application_created_at, t.resource_version) THEN true
        ELSE :{is_later} END)

-- A deleted object may come back at the same version when Argo CD, whose words have a time and a sync status, took it
-- for pruned and does so no longer; when anybody else says so, it is an old word told once more.
-- fragment: resource_is_newer
(excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)
    OR (excluded.epoch = 0 AND t.epoch = 0 AND CASE
        WHEN :{is_same_object} AND excluded.resource_version <> t.resource_version
            THEN excluded.resource_version > t.resource_version
        WHEN :{is_same_object} AND excluded.resource_version = t.resource_version AND t.is_deleted
             AND NOT excluded.is_deleted AND excluded.sync_status IS NULL THEN false
        WHEN :{is_other_object} AND (excluded.resource_created_at, excluded.resource_version) <
                                    (t.resource_created_at, t.resource_version) THEN false
        WHEN :{is_other_object} AND (excluded.resource_created_at, excluded.resource_version) >
                                    (t.resource_created_at, t.resource_version) THEN true
        ELSE :{is_later} END)

-- A cluster that was restored from a backup counts from an older version: its word about what is there holds after a day.
-- fragment: is_restored
(excluded.epoch = 0 AND t.epoch = 0 AND NOT t.is_deleted AND excluded.observed_at > t.observed_at + interval '1 day')

-- What a row takes changes, and a deleted one comes back.
-- fragment: stored_anew
stored_bytes = excluded.stored_bytes,
       added = excluded.stored_bytes - t.stored_bytes + CASE WHEN t.is_deleted THEN :{one_row} ELSE 0 END

-- A deleted row stays for a while, without what only HTTP knew, and counts as no row.
-- fragment: stored_less
source_bytes = 0, added = -t.source_bytes - CASE WHEN t.is_deleted THEN 0 ELSE :{one_row} END

-- Answers: no row = older than what is there; t = something changed, f = only said again.
-- name: application_upsert
INSERT INTO applications AS t (
    account_id, runtime, namespace, name, cluster, version, uid, is_deleted, sync_status, health_status,
    health_message, sync_revision, sync_revisions, operation_phase, operation_message, operation_started_at,
    operation_finished_at, operation_revision, operation_retry_count, operation, operation_resources, history_id,
    history_id_min, resources_count, project, destination_server, destination_name, destination_namespace,
    repo_url, path, target_revision, chart, sources, is_multi_source, is_git_source, include_pattern,
    exclude_pattern, sync_policy, labels, annotations, errors, application_created_at, manifest_sha256,
    content_hash, epoch, sequence, observed_at, parent_namespace, parent_name, resource_version, application_set,
    application_set_uid, operation_revisions, change_revisions, manifest_bytes, stored_bytes, added)
SELECT :account_id, :runtime, :namespace, :name, :cluster, :version, :uid, false, :sync_status, :health_status,
       :health_message, :sync_revision, :sync_revisions::jsonb, :operation_phase, :operation_message,
       :operation_started_at::timestamptz,
       :operation_finished_at::timestamptz, :operation_revision, :operation_retry_count::bigint, :operation::jsonb,
       :operation_resources::jsonb, :history_id::bigint, :history_id_min::bigint, :resources_count::integer, :project,
       :destination_server, :destination_name, :destination_namespace, :repo_url, :path, :target_revision, :chart,
       :sources::jsonb, :is_multi_source::boolean, :is_git_source::boolean, :include_pattern, :exclude_pattern,
       :sync_policy, :labels::jsonb,
       :annotations::jsonb, :errors::jsonb, :application_created_at::timestamptz, :manifest_sha256::bytea,
       :content_hash::bytea, :epoch::bigint, :sequence::bigint,
       :observed_at::timestamptz, :parent_namespace, :parent_name, :resource_version::numeric, :application_set,
       :application_set_uid, :operation_revisions::jsonb, :change_revisions::jsonb, :manifest_bytes::integer,
       :stored_bytes::integer, :stored_bytes::bigint + :{one_row}
  FROM :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE
   SET cluster = excluded.cluster, version = excluded.version, uid = excluded.uid, is_deleted = false,
       sync_status = excluded.sync_status, health_status = excluded.health_status,
       health_message = excluded.health_message, sync_revision = excluded.sync_revision,
       sync_revisions = excluded.sync_revisions, operation_phase = excluded.operation_phase,
       operation_message = excluded.operation_message, operation_started_at = excluded.operation_started_at,
       operation_finished_at = excluded.operation_finished_at, operation_revision = excluded.operation_revision,
       operation_retry_count = excluded.operation_retry_count, operation = excluded.operation,
       operation_resources = excluded.operation_resources, history_id = excluded.history_id,
       history_id_min = excluded.history_id_min, resources_count = excluded.resources_count,
       project = excluded.project, destination_server = excluded.destination_server,
       destination_name = excluded.destination_name, destination_namespace = excluded.destination_namespace,
       repo_url = excluded.repo_url, path = excluded.path, target_revision = excluded.target_revision,
       chart = excluded.chart, sources = excluded.sources, is_multi_source = excluded.is_multi_source,
       is_git_source = excluded.is_git_source, include_pattern = excluded.include_pattern,
       exclude_pattern = excluded.exclude_pattern, sync_policy = excluded.sync_policy, labels = excluded.labels,
       annotations = excluded.annotations, errors = excluded.errors,
       application_created_at = excluded.application_created_at, manifest_sha256 = excluded.manifest_sha256,
       content_hash = excluded.content_hash, epoch = excluded.epoch, sequence = excluded.sequence,
       observed_at = excluded.observed_at, received_at = now(),
       parent_namespace = excluded.parent_namespace, parent_name = excluded.parent_name,
       resource_version = excluded.resource_version, application_set = excluded.application_set,
       application_set_uid = excluded.application_set_uid, operation_revisions = excluded.operation_revisions,
       change_revisions = excluded.change_revisions, manifest_bytes = excluded.manifest_bytes, :{stored_anew},
       is_changed = t.is_deleted OR t.manifest_sha256 IS DISTINCT FROM excluded.manifest_sha256
                    OR t.sync_status IS DISTINCT FROM excluded.sync_status
                    OR t.health_status IS DISTINCT FROM excluded.health_status
 WHERE :{application_is_newer} OR :{is_restored}
RETURNING is_changed, set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- name: application_tombstone
INSERT INTO applications AS t (account_id, runtime, namespace, name, cluster, version, uid, is_deleted, is_changed,
                               sync_status, sync_policy, epoch, sequence, observed_at, resource_version,
                               application_created_at, stored_bytes, added)
SELECT :account_id, :runtime, :namespace, :name, :cluster, :version, :uid, true, false, 'UNKNOWN', 'Unknown',
       :epoch::bigint, :sequence::bigint, :observed_at::timestamptz,
       :resource_version::numeric, :application_created_at::timestamptz, :stored_bytes::integer, :stored_bytes::bigint
  FROM :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE
   SET is_deleted = true, manifest_sha256 = NULL, content_hash = NULL, desired_sha256 = NULL, git_sha256 = NULL,
       source_repo_url = NULL, source_path = NULL, source_revision = NULL, commit_message = NULL,
       commit_author = NULL, commit_date = NULL, source_errors = '[]', source_observed_at = NULL, errors = '[]',
       app_versions = NULL,
       epoch = excluded.epoch, sequence = excluded.sequence, observed_at = excluded.observed_at,
       received_at = now(), is_changed = NOT t.is_deleted, :{stored_less},
       uid = CASE WHEN excluded.uid = '' THEN t.uid ELSE excluded.uid END,
       resource_version = CASE WHEN excluded.uid IN ('', t.uid)
                               THEN coalesce(excluded.resource_version, t.resource_version)
                               ELSE excluded.resource_version END,
       application_created_at = CASE WHEN excluded.uid IN ('', t.uid)
                                   THEN coalesce(excluded.application_created_at, t.application_created_at)
                                   ELSE excluded.application_created_at END
 WHERE :{application_is_newer}
RETURNING is_changed, set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- What only reports over HTTP know, beside a state that may come from a tunnel; not from one that came too late to be the
-- state. Not "NOT is_deleted": on tables that were never analyzed the planner would take a partial index for that and read
-- all rows of the runtime.
-- name: application_enrich
UPDATE applications
   SET source_repo_url = :source_repo_url, source_path = :source_path, source_revision = :source_revision,
       commit_message = :commit_message, commit_author = :commit_author,
       commit_date = :commit_date, desired_sha256 = :desired_sha256::bytea, git_sha256 = :git_sha256::bytea,
       source_errors = :source_errors::jsonb,
       source_observed_at = :observed_at::timestamptz, app_versions = :app_versions::jsonb,
       source_bytes = :stored_bytes::integer,
       added = :stored_bytes::bigint - source_bytes
 WHERE account_id = :account_id AND runtime = :runtime AND namespace = :namespace AND name = :name
   AND NOT coalesce(is_deleted, true)
   AND (source_observed_at IS NULL OR source_observed_at < :observed_at::timestamptz)
   AND (epoch > 0 OR observed_at >= :observed_at::timestamptz)
RETURNING set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- What may no longer be read is shown as it was read last.
-- fragment: is_kept
excluded.presence = 'UNREADABLE' AND NOT t.is_deleted AND t.manifest_sha256 IS NOT NULL

-- name: resource_upsert
INSERT INTO resources AS t (
    account_id, runtime, cluster, api_group, kind, namespace, name, version, uid, is_deleted,
    application_namespace, application_name, sync_status, health_status, health_message, owners, labels, images,
    resource_created_at, manifest_sha256, content_hash, epoch, sequence, observed_at, resource_version, health_source,
    presence, api_resource, marks, running_images, stored_bytes, added)
SELECT :account_id, :runtime, :cluster, :api_group, :kind, :namespace, :name, :version, :uid, false,
       :application_namespace, :application_name, :sync_status, :health_status, :health_message, :owners::jsonb,
       :labels::jsonb, :images::jsonb,
       :resource_created_at::timestamptz, :manifest_sha256::bytea, :content_hash::bytea, :epoch::bigint,
       :sequence::bigint, :observed_at::timestamptz, :resource_version::numeric, :health_source, :presence,
       :api_resource, :marks, :running_images::jsonb, :stored_bytes::integer, :stored_bytes::bigint + :{one_row}
  FROM :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET version = excluded.version, is_deleted = false,
       application_namespace = excluded.application_namespace, application_name = excluded.application_name,
       sync_status = excluded.sync_status,
       uid = CASE WHEN :{is_kept} THEN t.uid ELSE excluded.uid END, health_status = CASE WHEN :{is_kept} THEN t.health_status ELSE excluded.health_status END,
       health_message = CASE WHEN :{is_kept} THEN t.health_message ELSE excluded.health_message END, health_source = CASE WHEN :{is_kept} THEN t.health_source ELSE excluded.health_source END,
       owners = CASE WHEN :{is_kept} THEN t.owners ELSE excluded.owners END, labels = CASE WHEN :{is_kept} THEN t.labels ELSE excluded.labels END, images = CASE WHEN :{is_kept} THEN t.images ELSE excluded.images END,
       running_images = CASE WHEN :{is_kept} THEN t.running_images ELSE excluded.running_images END,
       resource_created_at = CASE WHEN :{is_kept} THEN t.resource_created_at ELSE excluded.resource_created_at END, manifest_sha256 = CASE WHEN :{is_kept} THEN t.manifest_sha256 ELSE excluded.manifest_sha256 END,
       content_hash = excluded.content_hash, epoch = excluded.epoch,
       sequence = excluded.sequence, observed_at = excluded.observed_at, received_at = now(),
       resource_version = excluded.resource_version, presence = excluded.presence,
       api_resource = excluded.api_resource, marks = excluded.marks, :{stored_anew},
       is_changed = t.is_deleted OR
                    (t.manifest_sha256, t.sync_status, t.health_status, t.application_namespace, t.application_name,
                     t.health_message, t.health_source, t.presence, t.marks)
                    IS DISTINCT FROM (excluded.manifest_sha256, excluded.sync_status, excluded.health_status,
                                      excluded.application_namespace, excluded.application_name,
                                      excluded.health_message, excluded.health_source, excluded.presence,
                                      excluded.marks),
       has_new_images = t.manifest_sha256 IS NULL OR t.uid <> excluded.uid OR t.images <> excluded.images
                        OR t.owners <> excluded.owners
 WHERE :{resource_is_newer} OR :{is_restored}
RETURNING is_changed, set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- name: resource_tombstone
INSERT INTO resources AS t (account_id, runtime, cluster, api_group, kind, namespace, name, version, uid,
                            is_deleted, is_changed, epoch, sequence, observed_at, resource_version,
                            resource_created_at, stored_bytes, added)
SELECT :account_id, :runtime, :cluster, :api_group, :kind, :namespace, :name, :version, :uid, true, false,
       :epoch::bigint, :sequence::bigint, :observed_at::timestamptz, :resource_version::numeric,
       :resource_created_at::timestamptz, :stored_bytes::integer, :stored_bytes::bigint
  FROM :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET is_deleted = true, manifest_sha256 = NULL, content_hash = NULL, desired_sha256 = NULL, git_sha256 = NULL,
       source_repo_url = NULL, source_path = NULL, source_revision = NULL, commit_message = NULL,
       commit_author = NULL, commit_date = NULL, source_errors = '[]', source_observed_at = NULL,
       epoch = excluded.epoch, sequence = excluded.sequence, observed_at = excluded.observed_at,
       received_at = now(), is_changed = NOT t.is_deleted, :{stored_less},
       uid = CASE WHEN excluded.uid = '' THEN t.uid ELSE excluded.uid END,
       resource_version = CASE WHEN excluded.uid IN ('', t.uid)
                               THEN coalesce(excluded.resource_version, t.resource_version)
                               ELSE excluded.resource_version END,
       resource_created_at = CASE WHEN excluded.uid IN ('', t.uid)
                                   THEN coalesce(excluded.resource_created_at, t.resource_created_at)
                                   ELSE excluded.resource_created_at END
 WHERE :{resource_is_newer}
RETURNING is_changed, set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- name: resource_enrich
UPDATE resources
   SET source_repo_url = :source_repo_url, source_path = :source_path, source_revision = :source_revision,
       commit_message = :commit_message, commit_author = :commit_author,
       commit_date = :commit_date, desired_sha256 = :desired_sha256::bytea, git_sha256 = :git_sha256::bytea,
       source_errors = :source_errors::jsonb,
       source_observed_at = :observed_at::timestamptz, source_bytes = :stored_bytes::integer,
       added = :stored_bytes::bigint - source_bytes
 WHERE account_id = :account_id AND runtime = :runtime AND cluster = :cluster AND api_group = :api_group
   AND kind = :kind AND namespace = :namespace AND name = :name AND NOT coalesce(is_deleted, true)
   AND (source_observed_at IS NULL OR source_observed_at < :observed_at::timestamptz)
   AND (epoch > 0 OR observed_at >= :observed_at::timestamptz)
RETURNING set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- name: cluster_upsert
WITH old AS (
    SELECT connection_status, connection_message, server, server_version, findings, is_deleted
      FROM clusters
     WHERE account_id = :account_id AND runtime = :runtime AND name = :name),
new AS (
    INSERT INTO clusters AS t (account_id, runtime, name, server, server_version, connection_status,
                               connection_message, connection_attempted_at, resources_count, apis_count,
                               last_cache_sync_at, api_versions, namespaces, labels, epoch, sequence, observed_at,
                               findings)
    SELECT :account_id, :runtime, :name, :server, :server_version, :connection_status, :connection_message,
           :connection_attempted_at::timestamptz, :resources_count::bigint, :apis_count::bigint,
           :last_cache_sync_at::timestamptz, :api_versions::jsonb,
           :namespaces::jsonb, :labels::jsonb, :epoch::bigint, :sequence::bigint, :observed_at::timestamptz,
           :findings::jsonb
      FROM :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
    ON CONFLICT (account_id, runtime, name) DO UPDATE
       SET server = excluded.server, server_version = excluded.server_version,
           connection_status = excluded.connection_status, connection_message = excluded.connection_message,
           connection_attempted_at = excluded.connection_attempted_at, resources_count = excluded.resources_count,
           apis_count = excluded.apis_count, last_cache_sync_at = excluded.last_cache_sync_at,
           api_versions = excluded.api_versions, namespaces = excluded.namespaces, labels = excluded.labels,
           is_deleted = false, epoch = excluded.epoch, sequence = excluded.sequence,
           observed_at = excluded.observed_at, received_at = now(), findings = excluded.findings
     WHERE (excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)
        OR (excluded.epoch = 0 AND t.epoch = 0 AND excluded.observed_at > t.observed_at)
    RETURNING connection_status, connection_message, server, server_version, findings)
SELECT old.is_deleted IS DISTINCT FROM false
       OR (old.connection_status, old.connection_message, old.server, old.server_version, old.findings) IS DISTINCT FROM
          (new.connection_status, new.connection_message, new.server, new.server_version, new.findings)
  FROM new LEFT JOIN old ON true

-- name: cluster_tombstone
UPDATE clusters
   SET is_deleted = true, epoch = :epoch::bigint, sequence = :sequence::bigint,
       observed_at = :observed_at::timestamptz, received_at = now()
 WHERE account_id = :account_id AND runtime = :runtime AND name = :name AND NOT is_deleted
   AND ((:epoch::bigint, :sequence::bigint) > (epoch, sequence)
        OR (:epoch::bigint = 0 AND epoch = 0 AND :observed_at::timestamptz > observed_at))
   AND (:epoch::bigint = 0 OR :epoch::bigint >= :{fence_epoch})
RETURNING true

-- :names has the names of all that the agent knows; others that a tunnel told of are gone.
-- name: cluster_trim
UPDATE clusters
   SET is_deleted = true, epoch = :epoch::bigint, sequence = :sequence::bigint,
       observed_at = :observed_at::timestamptz, received_at = now()
 WHERE account_id = :account_id AND runtime = :runtime AND name <> :name AND NOT is_deleted AND epoch > 0
   AND (:epoch::bigint, :sequence::bigint) > (epoch, sequence) AND NOT :names::jsonb ? name

-- One that a newer session's inventory was compared or sent after says nothing any more.
-- name: report_snapshot_begin
UPDATE report_positions
   SET snapshot_epoch = :epoch::bigint, snapshot_sequence = :sequence::bigint, snapshot_refused = 0,
       fence_epoch = greatest(fence_epoch, :epoch::bigint)
 WHERE account_id = :account_id AND runtime = :runtime
   AND (:epoch::bigint, :sequence::bigint) > (snapshot_epoch, snapshot_sequence)
   AND :epoch::bigint >= fence_epoch
RETURNING false

-- name: report_snapshot_refused
UPDATE report_positions
   SET snapshot_refused = snapshot_refused + 1
 WHERE account_id = :account_id AND runtime = :runtime AND snapshot_epoch = :epoch::bigint
   AND snapshot_sequence < :sequence::bigint

-- What was refused is noted without being shown: an older state of it stays, and where there is none a deleted row says
-- what the agent has, so that it is not asked for it again and again.
-- name: application_touch
INSERT INTO applications AS t (account_id, runtime, namespace, name, cluster, version, uid, is_deleted, sync_status,
                               sync_policy, content_hash, epoch, sequence, observed_at, stored_bytes, added)
SELECT :account_id, :runtime, :namespace, :name, :cluster, :version, :uid, true, 'UNKNOWN', 'Unknown',
       :content_hash::bytea, :epoch::bigint, :sequence::bigint, :observed_at::timestamptz,
       :stored_bytes::integer, :stored_bytes::bigint
  FROM :{runtime_row} AND :epoch::bigint >= p.fence_epoch
ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE
   SET content_hash = excluded.content_hash, epoch = excluded.epoch, sequence = excluded.sequence, added = 0
 WHERE (excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)
RETURNING set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- name: resource_touch
INSERT INTO resources AS t (account_id, runtime, cluster, api_group, kind, namespace, name, version, uid, is_deleted,
                            content_hash, epoch, sequence, observed_at, stored_bytes, added)
SELECT :account_id, :runtime, :cluster, :api_group, :kind, :namespace, :name, :version, :uid, true,
       :content_hash::bytea, :epoch::bigint, :sequence::bigint, :observed_at::timestamptz,
       :stored_bytes::integer, :stored_bytes::bigint
  FROM :{runtime_row} AND :epoch::bigint >= p.fence_epoch
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name) DO UPDATE
   SET content_hash = excluded.content_hash, epoch = excluded.epoch, sequence = excluded.sequence, added = 0
 WHERE (excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)
RETURNING set_config(:counter, (current_setting(:counter)::bigint + added)::text, true)

-- What was refused for want of room stays as it was, and named by a snapshot; its entry in the digest tree stays that of
-- what is held, so that the next comparison finds that the agent has something else.
-- name: application_keep
UPDATE applications
   SET epoch = :epoch::bigint, sequence = :sequence::bigint
 WHERE account_id = :account_id AND runtime = :runtime AND namespace = :namespace AND name = :name
   AND (:epoch::bigint, :sequence::bigint) > (epoch, sequence)

-- name: resource_keep
UPDATE resources
   SET epoch = :epoch::bigint, sequence = :sequence::bigint
 WHERE account_id = :account_id AND runtime = :runtime AND cluster = :cluster AND api_group = :api_group
   AND kind = :kind AND namespace = :namespace AND name = :name AND (:epoch::bigint, :sequence::bigint) > (epoch, sequence)

-- Of a resource `a`: does the agent know nothing of it because its kind, or that of something that owns it, is one that it
-- may not read (u.kinds)?
-- fragment: is_unread
(u.kinds <> '{}' AND (a.api_group || '/' || a.kind = ANY (u.kinds) OR EXISTS (
    WITH RECURSIVE up (owners, height) AS (
        SELECT a.owners, 1
        UNION ALL
        SELECT r.owners, up.height + 1
          FROM up CROSS JOIN LATERAL jsonb_array_elements(up.owners) o
          JOIN resources r ON r.account_id = :account_id AND r.runtime = :runtime AND NOT r.is_deleted
                          AND r.uid = o ->> 'uid'
         WHERE up.height < 8)
    SELECT
      FROM up CROSS JOIN LATERAL jsonb_array_elements(up.owners) o
     WHERE CASE WHEN o ->> 'apiVersion' LIKE '%/%' THEN split_part(o ->> 'apiVersion', '/', 1) ELSE '' END || '/' ||
           (o ->> 'kind') = ANY (u.kinds))))

-- The end of a snapshot that began at a mark of the same session. What it named carries a newer (epoch, sequence) than
-- the mark; when that is as much as the agent counted, the rest is gone. What was refused may be in the count or not (the
-- agent hears of it sooner or later), and may be a row or not (of an older state, that stays). Rows that only
-- HTTP reported (epoch 0) are not the agent's to delete, and of kinds that it may not read it says nothing. Clusters
-- are no part of snapshots.
-- Answers: "repeated" (was done before), "matched", or "resync"; then how many rows went.
-- name: report_snapshot_end
WITH mark AS (
    SELECT snapshot_epoch AS epoch, snapshot_sequence AS sequence, snapshot_refused AS refused,
           (snapshot_end_epoch, snapshot_end_sequence) >= (:epoch::bigint, :sequence::bigint) AS is_repeated,
           snapshot_epoch = :epoch::bigint AND snapshot_sequence < :sequence::bigint
           AND :epoch::bigint >= fence_epoch AS is_open
      FROM report_positions
     WHERE account_id = :account_id AND runtime = :runtime),
found AS (
    SELECT (SELECT count(*) FROM applications a, mark m
             WHERE a.account_id = :account_id AND a.runtime = :runtime AND NOT a.is_deleted
               AND (a.epoch, a.sequence) > (m.epoch, m.sequence)) +
           (SELECT count(*) FROM resources a, mark m
             WHERE a.account_id = :account_id AND a.runtime = :runtime AND NOT a.is_deleted
               AND (a.epoch, a.sequence) > (m.epoch, m.sequence)) AS rows),
unread AS (
    SELECT string_to_array(:unread_kinds, E'\n') AS kinds),
matched AS (
    SELECT m.* FROM mark m, found f
     WHERE m.is_open AND NOT m.is_repeated AND abs(f.rows - :count::bigint) <= m.refused),
done AS (
    UPDATE report_positions p
       SET snapshot_end_epoch = :epoch::bigint, snapshot_end_sequence = :sequence::bigint
      FROM matched
     WHERE p.account_id = :account_id AND p.runtime = :runtime),
applications_gone AS (
    UPDATE applications a
       SET is_deleted = true, manifest_sha256 = NULL, content_hash = NULL, desired_sha256 = NULL, git_sha256 = NULL,
           source_observed_at = NULL, errors = '[]', source_errors = '[]', app_versions = NULL,
           epoch = :epoch::bigint, sequence = :sequence::bigint, received_at = now(), source_bytes = 0,
           added = -source_bytes - :{one_row}
      FROM matched m, unread u
     WHERE a.account_id = :account_id AND a.runtime = :runtime AND NOT a.is_deleted AND a.epoch > 0
       AND (a.epoch, a.sequence) < (m.epoch, m.sequence)
       AND NOT 'argoproj.io/Application' = ANY (u.kinds)
    RETURNING a.added),
resources_gone AS (
    UPDATE resources a
       SET is_deleted = true, manifest_sha256 = NULL, content_hash = NULL, desired_sha256 = NULL, git_sha256 = NULL,
           source_observed_at = NULL, source_errors = '[]', epoch = :epoch::bigint, sequence = :sequence::bigint,
           received_at = now(), source_bytes = 0, added = -source_bytes - :{one_row}
      FROM matched m, unread u
     WHERE a.account_id = :account_id AND a.runtime = :runtime AND NOT a.is_deleted AND a.epoch > 0
       AND (a.epoch, a.sequence) < (m.epoch, m.sequence)
       AND NOT :{is_unread}
    RETURNING a.added)
SELECT CASE WHEN (SELECT is_repeated FROM mark) THEN 'repeated' WHEN EXISTS (SELECT FROM matched) THEN 'matched'
            ELSE 'resync' END,
       (SELECT count(*) FROM applications_gone) + (SELECT count(*) FROM resources_gone),
       set_config(:counter, (current_setting(:counter)::bigint + (SELECT coalesce(sum(g.added), 0)
                                                        FROM (SELECT added FROM applications_gone
                                                              UNION ALL
                                                              SELECT added FROM resources_gone) g))::text, true)

-- Tombstones of sessions that are over have done their work: fenced sessions cannot repeat what they knew.
-- name: report_trim_applications
DELETE FROM applications t
 USING report_positions p
 WHERE p.account_id = :account_id AND p.runtime = :runtime AND p.snapshot_end_epoch = :epoch::bigint
   AND p.snapshot_end_sequence = :sequence::bigint AND t.account_id = :account_id AND t.runtime = :runtime
   AND t.is_deleted AND t.epoch < :epoch::bigint AND t.received_at < now() - interval '1 hour'

-- name: report_trim_resources
DELETE FROM resources t
 USING report_positions p
 WHERE p.account_id = :account_id AND p.runtime = :runtime AND p.snapshot_end_epoch = :epoch::bigint
   AND p.snapshot_end_sequence = :sequence::bigint AND t.account_id = :account_id AND t.runtime = :runtime
   AND t.is_deleted AND t.epoch < :epoch::bigint AND t.received_at < now() - interval '1 hour'

-- name: report_sweep
SELECT holder, slice, removed FROM manifests_sweep(:account_id, :slice::integer, :limit::integer)

-- name: report_sweep_tombstones
SELECT tombstones_sweep(:limit::integer)
