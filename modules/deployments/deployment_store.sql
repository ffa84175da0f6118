-- Times as keys of pages: exact, and in the form that cursors carry.
-- fragment: rfc3339_micros
'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'

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

-- What services and rollouts were like before and after is not kept of releases.
-- fragment: deployment_nothing
'{"services": [], "rollouts": []}'::json

-- Images of a deployment that CI reported: by name, by digest, or by the commit that they were
-- built of.
-- fragment: deployment_builds
SELECT coalesce(json_agg(json_build_object('imageId', i.image_id, 'imageName', i.image_name,
                                           'workflowName', i.workflow_name, 'workflowUrl', i.fields ->> 'workflowUrl',
                                           'logsUrl', i.fields ->> 'logsUrl', 'created', i.fields ->> 'created')
                         ORDER BY i.image_name, i.image_id), '[]'::json) AS builds,
       coalesce(array_agg(i.image_id), '{}') AS ids
  FROM (SELECT *
          FROM images i
         WHERE i.account_id = d.account_id
           AND (i.image_name IN (SELECT jsonb_array_elements_text(coalesce(d.images, '[]')))
                OR i.repo_digest IN (SELECT split_part(x, '@', 2)
                                       FROM jsonb_array_elements_text(coalesce(d.images, '[]')) x
                                      WHERE strpos(x, '@') > 0)
                OR (i.commit = d.revision AND i.commit <> ''))
         ORDER BY i.updated_at DESC, i.image_id
         LIMIT 50) i

-- What is noted of those images (b): issues, and pull requests.
-- fragment: deployment_notes
SELECT coalesce(json_agg(:{deployment_note} ORDER BY t.key) FILTER (WHERE t.value ? 'issueValue'), '[]'::json) AS issues,
       coalesce(json_agg(:{deployment_note} ORDER BY t.key) FILTER (WHERE t.value ? 'pullRequestValue'), '[]'::json) AS prs,
       coalesce(jsonb_agg(t.value -> 'pullRequestValue') FILTER (WHERE t.value ? 'pullRequestValue'), '[]') AS requests
  FROM (SELECT *
          FROM annotations t
         WHERE t.account_id = d.account_id AND t.entity_type = 'image' AND t.entity_id = ANY (b.ids)
         ORDER BY t.updated_at DESC, t.entity_id, t.type, t.key
         LIMIT 100) t

-- fragment: deployment_note
json_build_object(
    'id', t.entity_id || '/' || t.type || '/' || t.key, 'type', t.type, 'key', t.key, 'entityType', t.entity_type,
    'entityId', t.entity_id, 'accountId', t.account_id, 'classicId', t.classic_id,
    'value', coalesce(t.value -> 'issueValue', t.value -> 'pullRequestValue')::text,
    'url', coalesce(t.value -> 'issueValue', t.value -> 'pullRequestValue') ->> 'url',
    'title', coalesce(t.value -> 'issueValue', t.value -> 'pullRequestValue') ->> 'title',
    'status', t.value -> 'issueValue' ->> 'status')

-- Those of the pull requests (n), else the author of the commit (m).
-- fragment: deployment_committers
coalesce((SELECT json_agg(json_build_object(
                     'userName', c.name, 'avatar', c.avatar,
                     'commits', (SELECT json_agg(json_build_object('url', e ->> 'url', 'userName', e ->> 'userName',
                                                                   'sha', e ->> 'sha', 'message', e ->> 'message',
                                                                   'commitDate', e ->> 'commitDate'))
                                   FROM jsonb_array_elements(n.requests) r
                                  CROSS JOIN LATERAL jsonb_array_elements(coalesce(r -> 'commits', '[]')) e
                                  WHERE e ->> 'userName' = c.name)) ORDER BY c.name)
            FROM (SELECT DISTINCT ON (p ->> 'userName') p ->> 'userName' AS name, p ->> 'avatar' AS avatar
                    FROM jsonb_array_elements(n.requests) r
                   CROSS JOIN LATERAL jsonb_array_elements(coalesce(r -> 'committers', '[]')) p
                   WHERE p ->> 'userName' <> ''
                   ORDER BY p ->> 'userName', p ->> 'avatar') c),
         CASE WHEN m.node ->> 'author' IS NOT NULL THEN json_build_array(json_build_object(
                  'userName', m.node ->> 'author', 'avatar', NULL,
                  'commits', json_build_array(json_build_object(
                      'url', m.node ->> 'url', 'userName', m.node ->> 'author', 'sha', d.revision,
                      'message', m.node ->> 'message', 'commitDate', m.node ->> 'date')))) END,
         '[]'::json)

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
        'destination', CASE WHEN a.destination_namespace IS NOT NULL OR a.destination_server IS NOT NULL
                              OR a.destination_name IS NOT NULL
                            THEN json_build_object('name', a.destination_name, 'server', a.destination_server,
                                                   'namespace', a.destination_namespace) END,
        'specSources', d.sources, 'issues', n.issues, 'prs', n.prs, 'builds', b.builds,
        'committers', :{deployment_committers}, 'revision', d.revision),
    'operationState', :{deployment_operation}, 'childApps', '[]'::json,
    'fromState', :{deployment_nothing}, 'toState', :{deployment_nothing}, 'transition', :{deployment_nothing},
    'current', d.is_current,
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
  CROSS JOIN LATERAL (:{deployment_builds}) b
  CROSS JOIN LATERAL (:{deployment_notes}) n

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
