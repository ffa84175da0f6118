-- type: GitopsRelease
-- from: :{deployment_rows} d
-- key: d.runtime, d.namespace, d.name, d.uid, d.history_id, d.filed_at
-- scope: d.account_id = :account_id AND d.filed_at > '-infinity'
-- access: release, runtime = d.runtime, namespace = d.namespace, cluster = d.application_cluster, git_source = d.application_git_source, product = d.application_product, labels = d.application_labels
-- ruled: d.has_application
-- callers: users
-- query: gitopsReleases
-- field: applicationMetadata.group = 'argoproj.io'
-- field: applicationMetadata.version = coalesce(d.version, 'v1alpha1')
-- field: applicationMetadata.kind = 'Application'
-- field: applicationMetadata.name = d.name
-- field: applicationMetadata.description = NULL
-- field: applicationMetadata.namespace = d.namespace
-- field: applicationMetadata.runtime = d.runtime
-- field: applicationMetadata.cluster = coalesce(d.cluster, 'in-cluster')
-- field: applicationMetadata.account = d.account_id
-- field: applicationMetadata.labels = '[]'
-- field: applicationMetadata.annotations = '[]'
-- field: applicationMetadata.lastUpdated = time(d.recorded_at)
-- field: applicationMetadata.created = time(d.application_created_at)
-- field: applicationMetadata.uid = d.uid
-- field: applicationMetadata.favorite = false
-- field: applicationMetadata.revision = NULL
-- field: historyId = d.history_id
-- field: syncOperationRevision = d.revision
-- field: argoHistoryId = d.history_id
-- object: application.destination = :{deployment_has_destination}
-- field: application.destination.name = d.destination_name
-- field: application.destination.server = d.destination_server
-- field: application.destination.namespace = d.destination_namespace
-- field: application.issues = (SELECT n.issues FROM (:{deployment_builds}) b CROSS JOIN LATERAL (:{deployment_notes}) n)
-- field: application.prs = (SELECT n.prs FROM (:{deployment_builds}) b CROSS JOIN LATERAL (:{deployment_notes}) n)
-- field: application.builds = (SELECT b.builds FROM (:{deployment_builds}) b)
-- field: application.status.syncStatus = CASE WHEN d.is_current THEN d.sync_status ELSE 'UNKNOWN' END
-- field: application.status.syncStartedAt = time(d.deploy_started_at)
-- field: application.status.syncFinishedAt = time(d.deployed_at)
-- field: application.status.healthStatus = CASE WHEN d.is_current THEN d.health_status END
-- field: application.status.healthMessage = CASE WHEN d.is_current THEN d.health_message END
-- field: application.status.revision = d.revision
-- field: application.status.version = ''
-- field: application.status.commitAuthor = :{deployment_commit} ->> 'author'
-- field: application.status.commitAvatar = NULL
-- field: application.status.commitUrl = :{deployment_commit} ->> 'url'
-- field: application.status.commitMessage = :{deployment_commit} ->> 'message'
-- field: application.status.commitDate = :{deployment_commit} ->> 'date'
-- field: application.status.syncRevisions = NULL
-- field: application.status.changeRevisions = NULL
-- field: application.status.historyId = d.history_id
-- field: application.status.minHistoryId = NULL
-- field: application.specSources = d.sources
-- field: application.committers = :{deployment_committers}
-- field: application.revision = d.revision
-- field: operationState = :{deployment_operation_state}
-- field: childApps = '[]'
-- field: fromState.services = '[]'
-- field: fromState.rollouts = '[]'
-- field: toState.services = '[]'
-- field: toState.rollouts = '[]'
-- field: transition.services = '[]'
-- field: transition.rollouts = '[]'
-- field: current = d.is_current
-- field: deployedAt = time(d.deployed_at)
-- field: recordedAt = time(d.recorded_at)
-- field: initiator = d.initiator
-- field: automated = d.is_automated
-- field: result = coalesce((SELECT o.phase FROM (:{deployment_operation}) o), 'Succeeded')
-- field: images = d.images
-- field: manifestsDigest = encode(d.manifests_digest, 'hex')
-- field: manifests = :{deployment_manifests}
-- field: commit = :{deployment_commit}
-- filter: runtime text = d.runtime = :value
-- filter: name text = d.name = :value
-- filter: namespace text = d.namespace = :value
-- filter: group text = 'argoproj.io' = :value
-- filter: version text = coalesce(d.version, 'v1alpha1') = :value
-- filter: kind text = 'Application' = :value
-- filter: historyId bigint = d.history_id = :value
-- filter: issueKey text = :value IS NULL
-- filter: prKey text = :value IS NULL
-- filter: committer text = EXISTS (SELECT FROM commits c WHERE :{deployment_commits} AND c.author = :value)
-- filter: issueKeys text[] = :value IS NULL
-- filter: prKeys text[] = :value IS NULL
-- filter: committers text[] = EXISTS (SELECT FROM commits c WHERE :{deployment_commits} AND c.author = ANY (:value))
-- filter: syncStartDateFrom timestamptz = d.deployed_at >= :value
-- filter: syncStartDateTo timestamptz = d.deployed_at <= :value
-- filter: startDate timestamptz = d.deployed_at >= :value
-- filter: endDate timestamptz = d.deployed_at <= :value
-- filter: jiraReportFilter boolean = NOT :value
-- filter: appGroupName text = :value IS NULL
-- order: createdAt = :{deployment_order}
-- order: historyId = :{deployment_order}

-- The newest first. History ids follow the time of deployment within an application.
-- fragment: deployment_order
d.filed_at DESC, d.runtime DESC, d.namespace DESC, d.name DESC, d.uid DESC, d.history_id DESC

-- A deployment with its application, deleted or not: what rules see of it, and, if it is the same
-- incarnation and still there, what it is like now.
-- fragment: deployment_rows
(SELECT x.*, p.has_application, p.application_cluster, p.application_git_source, p.application_product,
        p.application_labels, p.version, p.cluster, p.application_created_at, p.destination_name, p.destination_server,
        p.destination_namespace, p.sync_status, p.health_status, p.health_message,
        coalesce(p.last_id = x.history_id, false) AS is_current
   FROM culvert.deployments x
   LEFT JOIN LATERAL (
        SELECT :{application_attributes}, i.*
          FROM culvert.applications a
          LEFT JOIN LATERAL (
               SELECT a.version, a.cluster, a.application_created_at, a.destination_name, a.destination_server,
                      a.destination_namespace, a.sync_status, a.health_status, a.health_message,
                      a.history_id AS last_id
                WHERE a.uid = x.uid AND NOT a.is_deleted) i ON true
         WHERE a.account_id = x.account_id AND a.runtime = x.runtime AND a.namespace = x.namespace
           AND a.name = x.name) p ON true)

-- fragment: deployment_has_destination
coalesce(d.destination_namespace, d.destination_server, d.destination_name) IS NOT NULL

-- fragment: deployment_commits
c.account_id = d.account_id AND c.revision = d.revision

-- The same repository by its several names.
-- fragment: deployment_repo
regexp_replace(coalesce(d.sources -> 0 ->> 'repoURL', ''), '([.]git)?/*$', '')

-- The commit behind a deployment, as reporters sent it, else CI with an image that it built of it.
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
(SELECT coalesce((SELECT json_agg(json_build_object(
                             'userName', c.name, 'avatar', c.avatar,
                             'commits', (SELECT json_agg(json_build_object(
                                                    'url', e ->> 'url', 'userName', e ->> 'userName',
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
   FROM (:{deployment_builds}) b
  CROSS JOIN LATERAL (:{deployment_notes}) n
  CROSS JOIN LATERAL (SELECT :{deployment_commit} AS node) m)

-- How it ended: Argo CD writes into status.history what succeeded.
-- fragment: deployment_operation_state
(SELECT CASE WHEN coalesce(o.started_at, d.deploy_started_at, d.deployed_at) IS NOT NULL THEN json_build_object(
            'finishedAt', to_char(coalesce(o.finished_at, d.deployed_at), :{rfc3339}),
            'startedAt', to_char(coalesce(o.started_at, d.deploy_started_at, d.deployed_at), :{rfc3339}),
            'message', o.message, 'phase', coalesce(o.phase, 'Succeeded'), 'type', 'SYNC', 'retryCount', NULL,
            'dryRun', o.is_dry_run, 'partial', o.is_partial,
            'syncResult', json_build_object('revision', d.revision, 'revisions', d.revisions, 'resources', NULL)) END
   FROM (SELECT 1) one
   LEFT JOIN (:{deployment_operation}) o ON true)

-- fragment: deployment_operation
SELECT *
  FROM culvert.application_operations o
 WHERE o.account_id = d.account_id AND o.runtime = d.runtime AND o.namespace = d.namespace AND o.name = d.name
   AND o.uid = d.uid AND o.started_at >= d.deploy_started_at
   AND o.started_at < d.deploy_started_at + interval '1 millisecond'
   AND o.is_dry_run IS NOT TRUE AND o.is_partial IS NOT TRUE
 ORDER BY o.revision IS NOT DISTINCT FROM d.revision DESC, o.started_at DESC
 LIMIT 1

-- name: deployment_settle
SELECT deployments_settle(:limit::integer)

-- name: deployment_partitions
SELECT ledger_partitions()

-- name: deployment_sweep
SELECT history_sweep(:kind, :default_days::integer, :limit::integer)
