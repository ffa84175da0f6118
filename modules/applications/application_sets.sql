-- type: ApplicationSet
-- from: culvert.resources a
-- key: a.runtime, a.cluster, a.namespace, a.name
-- scope: a.account_id = :account_id AND :{application_set_is}
-- access: application_set, runtime = a.runtime, namespace = a.namespace, labels = a.labels
-- callers: users
-- join: r = :{runtime_states} AND r.runtime IN (SELECT runtime FROM page) ON r.runtime = a.runtime
-- query: applicationSets
-- field: metadata.group = a.api_group
-- field: metadata.version = a.version
-- field: metadata.kind = a.kind
-- field: metadata.name = a.name
-- field: metadata.description = NULL
-- field: metadata.namespace = a.namespace
-- field: metadata.runtime = a.runtime
-- field: metadata.cluster = a.cluster
-- field: metadata.account = a.account_id
-- field: metadata.labels = pairs(a.labels)
-- field: metadata.annotations = '[]'
-- field: metadata.lastUpdated = time(a.received_at)
-- field: metadata.created = time(a.resource_created_at)
-- field: metadata.uid = a.uid
-- field: metadata.favorite = false
-- field: metadata.revision = NULL
-- field: errors = a.source_errors
-- field: readPermission = true
-- field: source.appName = nullif(a.application_name, '')
-- field: source.appNamespace = nullif(a.application_namespace, '')
-- field: source.repoURL = a.source_repo_url
-- field: source.path = a.source_path
-- field: source.fileURL = NULL
-- field: source.revision = a.source_revision
-- field: source.commitMessage = a.commit_message
-- field: source.commitDate = a.commit_date
-- field: source.commitURL = NULL
-- field: source.commitAuthor = a.commit_author
-- field: source.profileURL = NULL
-- field: source.avatarURL = NULL
-- field: source.gitManifest = NULL
-- field: source.resourceAction = NULL
-- field: syncStatus = coalesce(a.sync_status, 'UNKNOWN')
-- field: healthStatus = a.health_status
-- field: healthMessage = a.health_message
-- field: healthSource = a.health_source
-- field: projects = '[]'
-- field: updatedAt = time(a.received_at)
-- field: path = a.source_path
-- field: repoURL = a.source_repo_url
-- field: revision = a.source_revision
-- field: size = (SELECT count(*) FROM applications p WHERE :{application_set_member})
-- field: applications = :{application_set_names}
-- field: favorites = '[]'
-- field: sequence = :{entity_sequence}
-- field: freshness = :{application_set_freshness}
-- field: observedAt = time(a.observed_at)
-- field: receivedAt = time(a.received_at)
-- filter: runtime text = a.runtime = :value

-- fragment: application_set_is
a.api_group = 'argoproj.io' AND a.kind = 'ApplicationSet' AND NOT a.is_deleted
AND (a.presence IS NULL OR a.presence = 'UNREADABLE')

-- Applications (p) that a set (a) has made and that are there.
-- fragment: application_set_member
p.account_id = a.account_id AND p.runtime = a.runtime AND p.namespace = a.namespace AND p.application_set = a.name
   AND NOT p.is_deleted

-- fragment: application_set_names
(SELECT coalesce(json_agg(p.name ORDER BY p.name), '[]'::json)
   FROM (SELECT p.name FROM applications p WHERE :{application_set_member} ORDER BY p.name LIMIT 100) p)

-- fragment: application_set_freshness
entity_freshness(a.epoch, r.session_epoch, r.tunnel_freshness, r.unconfirmed_freshness, r.http_freshness)
