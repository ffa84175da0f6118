-- The same repository by its several names.
-- fragment: deployment_repo
regexp_replace(coalesce(d.sources -> 0 ->> 'repoURL', ''), '([.]git)?/*$', '')

-- The commit behind a deployment, by those who told of it: reporters, else CI with an image that it built of it.
-- fragment: deployment_commit
(SELECT json_build_object('revision', d.revision, 'author', c.author, 'message', c.message, 'date', c.commit_date,
                          'url', c.url)
   FROM (SELECT c.author, c.message, c.commit_date, NULL AS url, 0 AS place
           FROM commits c
          WHERE c.account_id = d.account_id AND c.revision = d.revision
            AND (:{deployment_repo} = '' OR regexp_replace(c.repo_url, '([.]git)?/*$', '') IN (:{deployment_repo}, ''))
         UNION ALL
         SELECT coalesce(i.fields -> 'author' ->> 'username', ''), i.fields ->> 'commitMsg', NULL,
                i.fields ->> 'commitURL', 1
           FROM images i
          WHERE i.account_id = d.account_id AND i.commit = d.revision AND i.commit <> '') c
  ORDER BY c.place
  LIMIT 1)

-- fragment: deployment_manifests
(SELECT json_agg(json_build_object('group', o ->> 0, 'kind', o ->> 1, 'namespace', o ->> 2, 'name', o ->> 3,
                                   'sha256', o ->> 4))
   FROM manifest_sets s, jsonb_array_elements(s.objects) o
  WHERE s.account_id = d.account_id AND s.digest = d.manifests_digest)

-- How it ended: Argo CD writes into status.history what succeeded.
-- fragment: deployment_operation
CASE WHEN coalesce(o.started_at, d.deploy_started_at, d.deployed_at) IS NOT NULL THEN json_build_object(
    'finishedAt', to_char(coalesce(o.finished_at, d.deployed_at), :{rfc3339}),
    'startedAt', to_char(coalesce(o.started_at, d.deploy_started_at, d.deployed_at), :{rfc3339}),
    'message', o.message, 'phase', coalesce(o.phase, 'Succeeded'), 'type', 'SYNC', 'retryCount', NULL,
    'dryRun', o.is_dry_run, 'partial', o.is_partial,
    'syncResult', json_build_object('revision', d.revision, 'revisions', d.revisions, 'resources', NULL)) END

-- d: the deployment, a: its application if that is the same incarnation, o: its operation.
-- fragment: deployment_node
jsonb_build_object(
    'applicationMetadata', json_build_object(
        'group', 'argoproj.io', 'version', coalesce(a.version, 'v1alpha1'), 'kind', 'Application', 'name', d.name,
        'description', NULL, 'namespace', d.namespace, 'runtime', d.runtime,
        'cluster', coalesce(a.cluster, 'in-cluster'), 'account', d.account_id, 'labels', '[]'::json,
        'annotations', '[]'::json, 'lastUpdated', to_char(d.recorded_at, :{rfc3339}),
        'created', to_char(a.application_created_at, :{rfc3339}), 'uid', d.uid, 'favorite', false, 'revision', NULL),
    'historyId', d.history_id, 'argoHistoryId', d.history_id, 'syncOperationRevision', d.revision,
    'application', json_build_object(
        'status', json_build_object(
            'syncStatus', CASE WHEN d.is_current THEN a.sync_status ELSE 'UNKNOWN' END,
            'syncStartedAt', to_char(d.deploy_started_at, :{rfc3339}),
            'syncFinishedAt', to_char(d.deployed_at, :{rfc3339}),
            'healthStatus', CASE WHEN d.is_current THEN a.health_status END,
            'healthMessage', CASE WHEN d.is_current THEN a.health_message END, 'revision', d.revision, 'version', '',
            'commitAuthor', m.node ->> 'author', 'commitMessage', m.node ->> 'message',
            'commitDate', m.node ->> 'date', 'commitUrl', m.node ->> 'url', 'historyId', d.history_id),
        'specSources', d.sources, 'issues', '[]'::json, 'prs', '[]'::json,
        'committers', CASE WHEN m.node ->> 'author' IS NULL THEN '[]'::json
                           ELSE json_build_array(json_build_object('userName', m.node ->> 'author')) END,
        'revision', d.revision),
    'operationState', :{deployment_operation}, 'childApps', '[]'::json, 'current', d.is_current,
    'deployedAt', to_char(d.deployed_at, :{rfc3339}), 'recordedAt', to_char(d.recorded_at, :{rfc3339}),
    'initiator', d.initiator, 'automated', d.is_automated, 'result', coalesce(o.phase, 'Succeeded'),
    'images', d.images, 'manifestsDigest', encode(d.manifests_digest, 'hex'), 'manifests', :{deployment_manifests},
    'commit', m.node)

-- What orders those of one moment.
-- fragment: deployment_tie
d.runtime || '/' || d.namespace || '/' || d.name || '/' || d.uid || '/' || lpad(d.history_id::text, 20, '0')

-- Empty texts and lists are no filter.
-- fragment: deployment_filter
d.account_id = :account_id AND d.filed_at > '-infinity'
   AND d.filed_at <= coalesce(nullif(:below_time, '')::timestamptz, 'infinity')
   AND d.filed_at >= coalesce(nullif(:above_time, '')::timestamptz, '-infinity')
   AND (nullif(:below_time, '') IS NULL
        OR (d.filed_at, :{deployment_tie}) < (nullif(:below_time, '')::timestamptz, :below_key))
   AND (nullif(:above_time, '') IS NULL
        OR (d.filed_at, :{deployment_tie}) > (nullif(:above_time, '')::timestamptz, :above_key))
   AND (:runtime = '' OR d.runtime = :runtime) AND (:name = '' OR d.name = :name)
   AND (:namespace = '' OR d.namespace = :namespace)
   AND (:history_id = '' OR d.history_id = nullif(:history_id, '')::bigint)
   AND (nullif(:from_time, '') IS NULL OR d.deployed_at >= nullif(:from_time, '')::timestamptz)
   AND (nullif(:until_time, '') IS NULL OR d.deployed_at <= nullif(:until_time, '')::timestamptz)
   AND (:committers::jsonb = '[]' OR EXISTS (SELECT FROM commits c
                                      WHERE c.account_id = d.account_id AND c.revision = d.revision
                                        AND :committers::jsonb ? c.author))

-- fragment: deployment_joins
LEFT JOIN applications a ON a.account_id = d.account_id AND a.runtime = d.runtime AND a.namespace = d.namespace
                        AND a.name = d.name AND a.uid = d.uid AND NOT a.is_deleted
  LEFT JOIN LATERAL (
       SELECT *
         FROM application_operations o
        WHERE o.account_id = d.account_id AND o.runtime = d.runtime AND o.namespace = d.namespace AND o.name = d.name
          AND o.uid = d.uid AND o.started_at >= d.deploy_started_at
          AND o.started_at < d.deploy_started_at + interval '1 millisecond'
          AND o.is_dry_run IS NOT TRUE AND o.is_partial IS NOT TRUE
        ORDER BY o.revision IS NOT DISTINCT FROM d.revision DESC, o.started_at DESC
        LIMIT 1) o ON true
  CROSS JOIN LATERAL (SELECT :{deployment_commit} AS node) m

-- fragment: deployment_is_current
EXISTS (SELECT FROM applications a
         WHERE a.account_id = d.account_id AND a.runtime = d.runtime AND a.namespace = d.namespace
           AND a.name = d.name AND a.uid = d.uid AND NOT a.is_deleted AND a.history_id = d.history_id)

-- list: deployment_list
-- order: d.filed_at DESC, :{deployment_tie} DESC
SELECT :{deployment_node}, to_char(d.filed_at, :{rfc3339_micros}), :{deployment_tie}
  FROM (SELECT d.*, :{deployment_is_current} AS is_current
          FROM deployments d
         WHERE :{deployment_filter}
         ORDER BY :{order}
         LIMIT :limit::bigint) d
  :{deployment_joins}
 ORDER BY :{order}

-- name: deployment_settle
SELECT deployments_settle(:limit::integer)

-- name: deployment_partitions
SELECT ledger_partitions()

-- name: deployment_sweep
SELECT history_sweep(:kind, :default_days::integer, :limit::integer)
