-- type: Application
-- from: culvert.applications a
-- key: a.name, a.runtime, a.namespace
-- scope: a.account_id = :account_id AND NOT a.is_deleted
-- access: application, runtime = a.runtime, namespace = a.namespace, cluster = :{application_cluster}, git_source = :{application_git_source}, product = :{application_product}, labels = a.labels
-- join: r = :{runtime_states} AND r.runtime IN (SELECT runtime FROM page) ON r.runtime = a.runtime
-- query: applications
-- query: application(runtime = a.runtime, name = a.name, namespace = a.namespace)
-- field: metadata.group = 'argoproj.io'
-- field: metadata.version = a.version
-- field: metadata.kind = 'Application'
-- field: metadata.name = a.name
-- field: metadata.description = NULL
-- field: metadata.namespace = a.namespace
-- field: metadata.runtime = a.runtime
-- field: metadata.cluster = a.cluster
-- field: metadata.account = a.account_id
-- field: metadata.labels = pairs(a.labels)
-- field: metadata.annotations = pairs(a.annotations)
-- field: metadata.lastUpdated = time(a.received_at)
-- field: metadata.created = time(a.application_created_at)
-- field: metadata.uid = a.uid
-- field: metadata.favorite = false
-- field: metadata.revision = NULL
-- field: errors = a.errors || a.source_errors
-- field: readPermission = true
-- field: version = NULL
-- field: latest = true
-- field: source.appName = a.name
-- field: source.appNamespace = a.namespace
-- field: source.repoURL = coalesce(a.source_repo_url, a.repo_url)
-- field: source.path = coalesce(a.source_path, a.path)
-- field: source.fileURL = NULL
-- field: source.revision = coalesce(a.source_revision, a.sync_revision)
-- field: source.commitMessage = coalesce(a.commit_message, :{application_commit_message})
-- field: source.commitDate = coalesce(a.commit_date, :{application_commit_date})
-- field: source.commitURL = :{application_commit_url}
-- field: source.commitAuthor = coalesce(a.commit_author, :{application_commit_author})
-- field: source.profileURL = NULL
-- field: source.avatarURL = NULL
-- field: source.gitManifest = NULL
-- field: source.resourceAction = NULL
-- field: syncStatus = a.sync_status
-- field: healthStatus = a.health_status
-- field: healthMessage = a.health_message
-- field: healthSource = CASE WHEN a.health_status IS NOT NULL THEN 'ARGOCD_STATUS' END
-- field: desiredManifest = manifest(a.desired_sha256) ONLY application
-- field: actualManifest = manifest(a.manifest_sha256) ONLY application
-- field: projects = :{application_projects}
-- field: updatedAt = time(a.received_at)
-- field: path = a.path
-- field: repoURL = a.repo_url
-- field: size = a.manifest_bytes
-- field: revision = a.sync_revision
-- field: applicationSet = a.application_set
-- field: syncing = coalesce(a.operation_phase = 'Running', false)
-- field: status.syncStatus = a.sync_status
-- field: status.syncStartedAt = time(a.operation_started_at)
-- field: status.syncFinishedAt = time(a.operation_finished_at)
-- field: status.healthStatus = a.health_status
-- field: status.healthMessage = a.health_message
-- field: status.revision = coalesce(a.sync_revision, '')
-- field: status.version = ''
-- field: status.commitAuthor = coalesce(a.commit_author, :{application_commit_author})
-- field: status.commitAvatar = NULL
-- field: status.commitUrl = :{application_commit_url}
-- field: status.commitMessage = coalesce(a.commit_message, :{application_commit_message})
-- field: status.commitDate = coalesce(a.commit_date, :{application_commit_date})
-- field: status.syncRevisions = :{application_sync_revisions}
-- field: status.changeRevisions = :{application_change_revisions}
-- field: status.historyId = a.history_id
-- field: status.minHistoryId = a.history_id_min
-- field: favorites = '[]'
-- field: destination.name = a.destination_name
-- field: destination.server = a.destination_server
-- field: destination.namespace = a.destination_namespace
-- field: specSource = a.sources -> 0
-- field: specSources = a.sources
-- field: include = a.include_pattern
-- field: exclude = a.exclude_pattern
-- object: operationState = a.operation_started_at IS NOT NULL AND a.operation_phase IS NOT NULL
-- field: operationState.finishedAt = time(a.operation_finished_at)
-- field: operationState.startedAt = time(a.operation_started_at)
-- field: operationState.message = a.operation_message
-- field: operationState.phase = a.operation_phase
-- field: operationState.type = 'SYNC'
-- field: operationState.retryCount = a.operation_retry_count
-- field: operationState.dryRun = (a.operation ->> 'dryRun')::boolean
-- field: operationState.partial = (a.operation ->> 'partial')::boolean
-- field: operationState.syncResult.revision = coalesce(a.operation_revision, '')
-- field: operationState.syncResult.revisions = a.operation_revisions
-- field: operationState.syncResult.resources = coalesce(a.operation_resources, '[]') ONLY application
-- field: operationState.syncResult.resources = :{application_first_results}
-- field: sync.status = a.sync_status
-- field: sync.revision = a.sync_revision
-- field: sync.revisions = a.sync_revisions
-- field: syncPolicy = a.sync_policy
-- field: isHelmApp = a.chart IS NOT NULL
-- field: isGitSource = a.is_git_source
-- field: isMultiSourced = a.is_multi_source
-- field: appVersions = a.app_versions
-- field: runningImages = (SELECT (:{application_running_images}) FROM (SELECT a.*) p)
-- field: resourcesNotRead = jsonb_path_query_first(a.errors, '$[*] ? (@.title == "ResourcesNotRead")')
-- field: freshness = :{entity_freshness}
-- field: observedAt = time(a.observed_at)
-- field: receivedAt = time(a.received_at)
-- field: sequence = :{entity_sequence}
-- field: transitions = :{application_transitions}
-- field: events = :{application_kubernetes_events}
-- filter: project text = a.project = :value
-- filter: projects text[] = a.project = ANY (:value)
-- filter: runtime text = a.runtime = :value
-- filter: runtimes text[] = a.runtime = ANY (:value)
-- filter: applications text[] = a.name = ANY (:value)
-- filter: applicationName text = strpos(lower(a.name), lower(:value)) > 0
-- filter: text text = :{application_text}
-- found: text = culvert.applications_with_text(:value, :limit)
-- filter: statuses text[] = a.sync_status = ANY (:value)
-- also: statuses SYNCING = a.operation_phase = 'Running'
-- filter: healthStatuses text[] = :{application_health} = ANY (:value)
-- filter: namespaces text[] = a.namespace = ANY (:value) OR a.destination_namespace = ANY (:value)
-- filter: namespace text = a.namespace = :value OR a.destination_namespace = :value
-- filter: kinds text[] = 'Application' = ANY (:value)
-- filter: clusterUrls text[] = coalesce(a.destination_server, a.destination_name) = ANY (:value)
-- filter: clusterUrl text = coalesce(a.destination_server, a.destination_name) = :value
-- filter: userId refused = applications are not kept by user
-- filter: favorite boolean = NOT :value
-- filter: labels text[] = :{application_labels}
-- found: labels = culvert.applications_with_labels(:value, :limit)
-- filter: groups text[] = 'argoproj.io' = ANY (:value)
-- filter: versions text[] = a.version = ANY (:value)
-- filter: inactive boolean = :value IS NOT NULL
-- filter: includeComponents boolean DEFAULT f = :value OR :{application_is_alone}
-- filter: excludeGitSources boolean = NOT (:value AND a.is_git_source)
-- filter: appGroups text[] = :value IS NULL
-- filter: hasAppGroups boolean = NOT :value
-- filter: ids text[] = :{application_ids}
-- filter: operationPhases text[] = a.operation_phase = ANY (:value)
-- filter: repoURLs text[] = a.repo_url = ANY (:value)
-- filter: revisions text[] = a.sync_revision = ANY (:value)
-- filter: autoSync boolean = (a.sync_policy = 'Automated') = :value
-- filter: errorText text = strpos(lower((a.errors || a.source_errors)::text), lower(:value)) > 0
-- order: NAME = key
-- order: RUNTIME = a.runtime, a.name, a.namespace
-- order: SEVERITY = culvert.health_rank(a.health_status), a.name, a.runtime, a.namespace
-- order: SYNC = a.sync_status, a.name, a.runtime, a.namespace
-- index: applicationsIndex
-- label: SEVERITY = :{application_health} || ' ' || a.name
-- label: SYNC = a.sync_status || ' ' || a.name
-- facets: applicationFacets
-- facet: HEALTH healthStatuses = :{application_health}
-- facet: SYNC statuses = a.sync_status
-- facet: OPERATION operationPhases = a.operation_phase
-- facet: RUNTIME runtime runtimes = a.runtime
-- facet: CLUSTER clusterUrl clusterUrls = coalesce(a.destination_server, a.destination_name)
-- facet: NAMESPACE namespace namespaces = :{application_namespaces}
-- facet: PROJECT project projects = a.project
-- facet: AUTO_SYNC autoSync = a.sync_policy = 'Automated'
-- facet: REPO repoURLs = a.repo_url

-- fragment: application_transitions
(:{transition_nodes}
   FROM (SELECT *
           FROM culvert.transitions y
          WHERE y.account_id = a.account_id AND y.application_name = a.name AND y.runtime = a.runtime
            AND y.kind = 'Application' AND y.namespace = a.namespace AND y.name = a.name
            AND y.api_group = 'argoproj.io'
          ORDER BY y.number DESC
          LIMIT 20) y)

-- fragment: application_cluster
coalesce(a.destination_server, a.destination_name)

-- Of Argo CD's tracking id, NAME:GROUP/KIND:NAMESPACE/NAME, or its tracking label.
-- fragment: application_git_source
coalesce(nullif(split_part(a.annotations ->> 'argocd.argoproj.io/tracking-id', ':', 1), ''), a.labels ->> 'app.kubernetes.io/instance')

-- fragment: application_product
coalesce(a.annotations ->> 'codefresh.io/product', a.labels ->> 'codefresh.io/product')

-- What rules see of the Application that an object (x) belongs to by its columns
-- application_namespace and application_name. One that was deleted counts: what belonged to it is
-- not open to more people by that.
-- fragment: application_of
LATERAL (SELECT :{application_attributes}, a.project AS application_project
           FROM culvert.applications a
          WHERE a.account_id = x.account_id AND a.runtime = x.runtime AND a.namespace = x.application_namespace
            AND a.name = x.application_name) p ON true

-- fragment: application_attributes
true AS has_application, :{application_cluster} AS application_cluster,
:{application_git_source} AS application_git_source, :{application_product} AS application_product,
a.labels AS application_labels

-- fragment: application_projects
CASE WHEN a.project IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(a.project) END

-- fragment: application_first_results
jsonb_path_query_array(a.operation_resources, '$[0 to 49]')

-- Both of what the filter looks at, once.
-- fragment: application_namespaces
unnest(CASE WHEN a.destination_namespace <> a.namespace THEN ARRAY[a.namespace, a.destination_namespace]
            ELSE ARRAY[a.namespace] END)

-- fragment: application_health
(CASE WHEN a.health_status IS NULL THEN 'UNKNOWN' ELSE a.health_status END)

-- RUNTIME/NAMESPACE/NAME. DISTINCT keeps split_part, which is not leakproof, out of the join: with it
-- there, row-level security keeps PostgreSQL from looking ids up in the primary key, and all rows of
-- the account are read.
-- fragment: application_ids
(a.name, a.runtime, a.namespace) IN (SELECT DISTINCT split_part(i, '/', 3), split_part(i, '/', 1), split_part(i, '/', 2)
                                       FROM unnest(:value) i)

-- fragment: application_is_alone
coalesce(a.labels ->> 'codefresh.io/entity', '') <> 'component'

-- A label as KEY or KEY=VALUE; any of them will do. What the values give is computed once, not for each row.
-- fragment: application_labels
a.labels ?| ARRAY(SELECT l FROM unnest(:value) l WHERE strpos(l, '=') = 0)
   OR a.labels @> ANY (ARRAY(SELECT jsonb_build_object(split_part(l, '=', 1), substr(l, strpos(l, '=') + 1))
                               FROM unnest(:value) l WHERE strpos(l, '=') > 0))

-- fragment: application_text
strpos(lower(concat_ws(' ', a.name, a.repo_url, a.path, a.labels::text)), lower(:value)) > 0
   OR starts_with(lower(a.sync_revision), lower(:value))

-- What reporters told of the commit that it is synced to.
-- fragment: application_commit_author
(SELECT c.author
   FROM culvert.commits c
  WHERE c.account_id = a.account_id AND c.revision = a.sync_revision AND c.author <> ''
  ORDER BY c.last_seen_at DESC, c.repo_url
  LIMIT 1)

-- fragment: application_commit_message
(SELECT c.message
   FROM culvert.commits c
  WHERE c.account_id = a.account_id AND c.revision = a.sync_revision AND c.message <> ''
  ORDER BY c.last_seen_at DESC, c.repo_url
  LIMIT 1)

-- fragment: application_commit_date
(SELECT c.commit_date
   FROM culvert.commits c
  WHERE c.account_id = a.account_id AND c.revision = a.sync_revision AND c.commit_date <> ''
  ORDER BY c.last_seen_at DESC, c.repo_url
  LIMIT 1)

-- fragment: application_commit_url
(SELECT i.fields ->> 'commitURL'
   FROM culvert.images i
  WHERE i.account_id = a.account_id AND i.commit = a.sync_revision AND i.commit <> '' AND i.fields ? 'commitURL'
  ORDER BY i.updated_at DESC, i.image_id
  LIMIT 1)

-- fragment: application_sync_revisions
(SELECT json_agg(:{application_revision} ORDER BY v.place)
   FROM jsonb_array_elements_text(CASE WHEN a.sync_revisions <> '[]' THEN a.sync_revisions
                                       WHEN a.sync_revision <> '' THEN jsonb_build_array(a.sync_revision) END)
        WITH ORDINALITY AS v (revision, place))

-- fragment: application_change_revisions
(SELECT json_agg(:{application_revision} ORDER BY v.place)
   FROM jsonb_array_elements_text(a.change_revisions) WITH ORDINALITY AS v (revision, place))

-- fragment: application_revision
(SELECT json_build_object('revision', v.revision, 'author', max(c.author), 'message', max(c.message),
                          'date', max(c.commit_date), 'avatar', NULL, 'url', NULL)
   FROM (SELECT *
           FROM culvert.commits c
          WHERE c.account_id = a.account_id AND c.revision = v.revision
          ORDER BY c.last_seen_at DESC, c.repo_url
          LIMIT 1) c)

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
