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
        'applicationsCount', (SELECT count(*) FROM applications a
                               WHERE a.account_id = c.account_id AND a.runtime = c.runtime AND NOT a.is_deleted
                                 AND (a.destination_server = c.server OR a.destination_name = c.name)),
        'apiVersions', c.api_versions),
    'inactive', false, 'updatedAt', to_char(c.received_at, :{rfc3339}),
    'observedAt', to_char(c.observed_at, :{rfc3339}), 'receivedAt', to_char(c.received_at, :{rfc3339}),
    'sequence', c.epoch || '.' || c.sequence,
    'freshness', entity_freshness(c.epoch, r.session_epoch, r.tunnel_freshness, r.unconfirmed_freshness,
                                  r.http_freshness))

-- fragment: cluster_key
CASE WHEN c.name = 'in-cluster' THEN '0' ELSE '1' END || c.name

-- fragment: cluster_filter
c.account_id = :account_id AND NOT c.is_deleted AND (:runtime = '' OR c.runtime = :runtime)
   AND :{page}

-- list: cluster_list
-- order: :{cluster_key}, c.runtime
WITH page AS MATERIALIZED (
    SELECT * FROM clusters c
     WHERE :{cluster_filter}
     ORDER BY :{order}
     LIMIT :limit::bigint),
r AS MATERIALIZED (:{runtime_states} AND r.runtime IN (SELECT runtime FROM page))
SELECT :{cluster_node}, :{keys}
  FROM page c
  JOIN r ON r.runtime = c.runtime
 ORDER BY :{order}
