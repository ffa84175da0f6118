-- type: Cluster
-- from: culvert.clusters c
-- key: c.name, c.runtime
-- scope: c.account_id = :account_id AND NOT c.is_deleted
-- access: cluster, runtime = c.runtime, cluster = c.server
-- callers: users
-- join: r = :{runtime_states} AND r.runtime IN (SELECT runtime FROM page) ON r.runtime = c.runtime
-- query: clusters
-- page: 1000
-- field: metadata.group = 'argoproj.io'
-- field: metadata.version = 'v1alpha1'
-- field: metadata.kind = 'Cluster'
-- field: metadata.name = c.name
-- field: metadata.description = NULL
-- field: metadata.namespace = NULL
-- field: metadata.runtime = c.runtime
-- field: metadata.cluster = c.server
-- field: metadata.account = c.account_id
-- field: metadata.labels = pairs(c.labels)
-- field: metadata.annotations = '[]'
-- field: metadata.lastUpdated = time(c.received_at)
-- field: metadata.created = time(c.created_at)
-- field: metadata.uid = NULL
-- field: metadata.favorite = false
-- field: metadata.revision = NULL
-- field: errors = '[]'
-- field: server = c.server
-- field: namespaces = c.namespaces
-- field: refreshRequestedAt = NULL
-- field: shard = NULL
-- field: clusterResources = true
-- field: info.connectionState.status = c.connection_status
-- field: info.connectionState.message = c.connection_message
-- field: info.connectionState.attemptedAt = time(c.connection_attempted_at)
-- field: info.serverVersion = c.server_version
-- field: info.cacheInfo.resourcesCount = c.resources_count
-- field: info.cacheInfo.apisCount = c.apis_count
-- field: info.cacheInfo.lastCacheSyncTime = time(c.last_cache_sync_at)
-- field: info.applicationsCount = :{cluster_applications_count}
-- field: info.apiVersions = c.api_versions
-- field: inactive = false
-- field: updatedAt = time(c.received_at)
-- field: freshness = :{cluster_freshness}
-- field: observedAt = time(c.observed_at)
-- field: receivedAt = time(c.received_at)
-- field: sequence = c.epoch || '.' || c.sequence
-- filter: runtime text = c.runtime = :value
-- order: KEY = (CASE WHEN c.name = 'in-cluster' THEN 0 ELSE 1 END), c.name, c.runtime

-- fragment: cluster_applications_count
(SELECT count(*) FROM applications a
  WHERE a.account_id = c.account_id AND a.runtime = c.runtime AND NOT a.is_deleted
    AND (a.destination_server = c.server OR a.destination_name = c.name))

-- Clusters are reported anew in each session.
-- fragment: cluster_freshness
entity_freshness(c.epoch, r.session_epoch, r.tunnel_freshness, r.unconfirmed_freshness, r.http_freshness)

-- As runtimes show those that they manage.
-- fragment: cluster_node
json_build_object(
    'metadata', json_build_object(
        'group', 'argoproj.io', 'version', 'v1alpha1', 'kind', 'Cluster', 'name', c.name, 'description', NULL,
        'namespace', NULL, 'runtime', c.runtime, 'cluster', c.server, 'account', c.account_id,
        'labels', (SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value)), '[]'::json)
                     FROM jsonb_each_text(c.labels) l),
        'annotations', '[]'::json, 'lastUpdated', to_char(c.received_at, :{rfc3339}),
        'created', to_char(c.created_at, :{rfc3339}), 'uid', NULL, 'favorite', false, 'revision', NULL),
    'errors', '[]'::json, 'referencedBy', '[]'::json, 'references', '[]'::json, 'server', c.server,
    'namespaces', c.namespaces, 'refreshRequestedAt', NULL, 'shard', NULL, 'clusterResources', true,
    'info', json_build_object(
        'connectionState', json_build_object(
            'status', c.connection_status, 'message', c.connection_message,
            'attemptedAt', to_char(c.connection_attempted_at, :{rfc3339})),
        'serverVersion', c.server_version,
        'cacheInfo', json_build_object('resourcesCount', c.resources_count, 'apisCount', c.apis_count,
                                       'lastCacheSyncTime', to_char(c.last_cache_sync_at, :{rfc3339})),
        'applicationsCount', :{cluster_applications_count},
        'apiVersions', c.api_versions),
    'inactive', false, 'updatedAt', to_char(c.received_at, :{rfc3339}),
    'observedAt', to_char(c.observed_at, :{rfc3339}), 'receivedAt', to_char(c.received_at, :{rfc3339}),
    'sequence', c.epoch || '.' || c.sequence,
    'freshness', :{cluster_freshness})
