-- fragment: application_metadata
json_build_object(
    'group', 'argoproj.io', 'version', a.version, 'kind', 'Application', 'name', a.name, 'description', NULL,
    'namespace', a.namespace, 'runtime', a.runtime, 'cluster', a.cluster, 'account', a.account_id,
    'labels', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key), '[]'::json)
                 FROM jsonb_each_text(a.labels) l),
    'annotations', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key),
                                    '[]'::json)
                      FROM jsonb_each_text(a.annotations) l),
    'lastUpdated', to_char(a.received_at, :{rfc3339}), 'created', to_char(a.application_created_at, :{rfc3339}),
    'uid', a.uid, 'favorite', false, 'revision', NULL)

-- Revisions alone: what reporters told of their commits is with the releases.
-- fragment: application_sync_revisions
(SELECT json_agg(:{application_revision} ORDER BY v.place)
   FROM jsonb_array_elements_text(CASE WHEN a.sync_revisions <> '[]' THEN a.sync_revisions
                                       WHEN a.sync_revision <> '' THEN jsonb_build_array(a.sync_revision) END)
        WITH ORDINALITY AS v (revision, place))

-- fragment: application_change_revisions
(SELECT json_agg(:{application_revision} ORDER BY v.place)
   FROM jsonb_array_elements_text(a.change_revisions) WITH ORDINALITY AS v (revision, place))

-- fragment: application_revision
json_build_object('revision', v.revision, 'author', NULL, 'message', NULL, 'date', NULL, 'avatar', NULL, 'url', NULL)

-- fragment: application_status
json_build_object(
    'syncStatus', a.sync_status, 'syncStartedAt', to_char(a.operation_started_at, :{rfc3339}),
    'syncFinishedAt', to_char(a.operation_finished_at, :{rfc3339}), 'healthStatus', a.health_status,
    'healthMessage', a.health_message, 'revision', coalesce(a.sync_revision, ''), 'version', '',
    'commitAuthor', a.commit_author, 'commitAvatar', NULL, 'commitUrl', NULL, 'commitMessage', a.commit_message,
    'commitDate', a.commit_date, 'syncRevisions', :{application_sync_revisions},
    'changeRevisions', :{application_change_revisions}, 'historyId', a.history_id,
    'minHistoryId', a.history_id_min)

-- fragment: application_operation
CASE WHEN a.operation_started_at IS NOT NULL AND a.operation_phase IS NOT NULL THEN json_build_object(
    'finishedAt', to_char(a.operation_finished_at, :{rfc3339}),
    'startedAt', to_char(a.operation_started_at, :{rfc3339}), 'message', a.operation_message,
    'phase', a.operation_phase, 'type', 'SYNC', 'retryCount', a.operation_retry_count,
    'operation', coalesce(a.operation, '{}'), 'dryRun', (a.operation ->> 'dryRun')::boolean,
    'partial', (a.operation ->> 'partial')::boolean,
    'syncResult', json_build_object(
        'revision', coalesce(a.operation_revision, ''), 'revisions', a.operation_revisions,
        'resources', jsonb_path_query_array(a.operation_resources, '$[0 to 49]'),
        'source', a.sources -> 0, 'sources', CASE WHEN a.is_multi_source THEN a.sources END)) END

-- fragment: application_source
json_build_object(
    'appName', a.name, 'appNamespace', a.namespace, 'gitSource', NULL,
    'repoURL', coalesce(a.source_repo_url, a.repo_url), 'path', coalesce(a.source_path, a.path), 'fileURL', NULL,
    'revision', coalesce(a.source_revision, a.sync_revision), 'commitMessage', a.commit_message,
    'commitDate', a.commit_date, 'commitURL', NULL, 'commitAuthor', a.commit_author, 'profileURL', NULL,
    'avatarURL', NULL, 'gitManifest', NULL, 'resourceAction', NULL)

-- Everything but the manifests and what is only shown for one application.
-- fragment: application_node
jsonb_build_object(
    'metadata', :{application_metadata}, 'errors', a.errors || a.source_errors, 'referencedBy', '[]'::json,
    'references', '[]'::json, 'appsRelations', NULL, 'readPermission', true, 'version', NULL, 'latest', true,
    'source', :{application_source}, 'syncStatus', a.sync_status, 'healthStatus', a.health_status,
    'healthMessage', a.health_message,
    'healthSource', CASE WHEN a.health_status IS NOT NULL THEN 'ARGOCD_STATUS' END, 'projects', CASE WHEN a.project IS NULL THEN '[]'::jsonb
                                                        ELSE jsonb_build_array(a.project) END,
    'updatedAt', to_char(a.received_at, :{rfc3339}), 'path', a.path, 'repoURL', a.repo_url, 'size', a.manifest_bytes,
    'applicationSet', a.application_set, 'syncing', coalesce(a.operation_phase = 'Running', false),
    'revision', a.sync_revision, 'status', :{application_status}, 'favorites', '[]'::json,
    'destination', json_build_object('name', a.destination_name, 'server', a.destination_server,
                                     'namespace', a.destination_namespace),
    'specSource', a.sources -> 0, 'specSources', a.sources, 'include', a.include_pattern,
    'exclude', a.exclude_pattern, 'sync', json_build_object(
        'status', a.sync_status, 'revision', a.sync_revision, 'revisions', a.sync_revisions, 'comparedTo', NULL),
    'operationState', :{application_operation}, 'syncPolicy', a.sync_policy, 'isHelmApp', a.chart IS NOT NULL, 'isGitSource', a.is_git_source,
    'isMultiSourced', a.is_multi_source, 'relatedGroups', '[]'::json, 'appVersions', a.app_versions,
    'products', '[]'::json, 'environments', '[]'::json, 'resourcesCount', a.resources_count,
    'observedAt', to_char(a.observed_at, :{rfc3339}), 'receivedAt', to_char(a.received_at, :{rfc3339}),
    'sequence', :{entity_sequence}, 'freshness', :{entity_freshness})

-- What the pods of an application (p) run.
-- fragment: application_running_images
SELECT coalesce(jsonb_agg(:{running_image_node} ORDER BY c.image, c.image_id), '[]')
  FROM (SELECT n ->> 'image' AS image, nullif(n ->> 'imageID', '') AS image_id, count(DISTINCT a.uid) AS pods
          FROM (SELECT *
                  FROM resources a
                 WHERE a.account_id = p.account_id AND a.runtime = p.runtime
                   AND a.application_namespace = p.namespace AND a.application_name = p.name
                   AND a.application_name <> '' AND NOT a.is_deleted AND a.api_group = '' AND a.kind = 'Pod'
                 ORDER BY a.cluster, a.namespace, a.name
                 LIMIT 10000) a
         CROSS JOIN LATERAL jsonb_array_elements(:{pod_running_images}) n
         GROUP BY 1, 2) c

-- The node, then two manifests as (encoding, bytes, content in hex): live, desired.
-- name: application_get
WITH r AS MATERIALIZED (:{runtime_states} AND r.runtime = :runtime)
SELECT CASE WHEN a.operation_started_at IS NULL OR a.operation_phase IS NULL THEN :{application_node}
            ELSE jsonb_set(:{application_node}, '{operationState,syncResult,resources}',
                           coalesce(a.operation_resources, '[]')) END
           || jsonb_build_object('runningImages', images.running),
       live.encoding, live.plain_bytes, encode(live.content, 'hex'),
       desired.encoding, desired.plain_bytes, encode(desired.content, 'hex')
  FROM (SELECT * FROM applications a
         WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.name = :name
           AND (:namespace = '' OR a.namespace = :namespace)
           AND NOT a.is_deleted
         ORDER BY a.namespace
         LIMIT 1) a
  JOIN r ON r.runtime = a.runtime
 CROSS JOIN LATERAL (SELECT (:{application_running_images}) AS running FROM (SELECT a.*) p) images
  LEFT JOIN manifests live ON live.account_id = :account_id AND live.sha256 = a.manifest_sha256
  LEFT JOIN manifests desired ON desired.account_id = :account_id AND desired.sha256 = a.desired_sha256
