-- a: the resource, r: how fresh its runtime is. size: how many Applications it has made that are there.
-- fragment: application_set_node
jsonb_build_object(
    'metadata', :{resource_metadata}, 'errors', a.source_errors,
    'readPermission', true, 'source', :{resource_source},
    'syncStatus', coalesce(a.sync_status, 'UNKNOWN'), 'healthStatus', a.health_status,
    'healthMessage', a.health_message, 'healthSource', a.health_source, 'projects', '[]'::json,
    'updatedAt', to_char(a.received_at, :{rfc3339}), 'path', a.source_path, 'repoURL', a.source_repo_url,
    'revision', a.source_revision, 'favorites', '[]'::json,
    'size', (SELECT count(*) FROM applications p WHERE :{application_set_member}),
    'applications', (SELECT coalesce(json_agg(p.name ORDER BY p.name), '[]'::json)
                       FROM (SELECT p.name FROM applications p WHERE :{application_set_member}
                              ORDER BY p.name LIMIT 100) p),
    'sequence', a.epoch || '.' || a.sequence,
    'freshness', entity_freshness(a.epoch, r.session_epoch, r.tunnel_freshness, r.unconfirmed_freshness,
                                  r.http_freshness),
    'observedAt', to_char(a.observed_at, :{rfc3339}), 'receivedAt', to_char(a.received_at, :{rfc3339}))

-- fragment: application_set_member
p.account_id = a.account_id AND p.runtime = a.runtime AND p.namespace = a.namespace AND p.application_set = a.name
   AND NOT p.is_deleted

-- list: application_set_list
-- order: a.runtime, a.cluster, a.namespace, a.name
WITH page AS MATERIALIZED (
    SELECT * FROM resources a
     WHERE a.account_id = :account_id AND a.api_group = 'argoproj.io' AND a.kind = 'ApplicationSet'
       AND NOT a.is_deleted AND (a.presence IS NULL OR a.presence = 'UNREADABLE')
       AND (:runtime = '' OR a.runtime = :runtime) AND :{page}
     ORDER BY :{order}
     LIMIT :limit::bigint),
r AS MATERIALIZED (:{runtime_states} AND r.runtime IN (SELECT runtime FROM page))
SELECT :{application_set_node}, :{keys}
  FROM page a
  JOIN r ON r.runtime = a.runtime
 ORDER BY :{order}
