-- Everything that an application's reports name as its own (what its resources made is told with its name, too), and the
-- applications whose parent it is. Edges by the owners' uids, where there is such an object; what nobody here owns hangs
-- on the application.
-- name: tree_get
WITH r AS MATERIALIZED (:{runtime_states} AND r.runtime = $2),
top AS (
    SELECT *
      FROM applications a
     WHERE a.account_id = $1 AND a.runtime = $2 AND a.name = $3 AND ($4 = '' OR a.namespace = $4) AND NOT a.is_deleted
     ORDER BY a.namespace
     LIMIT 1),
below AS (
    SELECT row_number() OVER () AS id, a.*
      FROM top t
      JOIN resources a ON a.account_id = t.account_id AND a.runtime = t.runtime
                      AND a.application_namespace = t.namespace AND a.application_name = t.name
                      AND a.application_name <> '' AND NOT a.is_deleted
     ORDER BY a.cluster, a.api_group, a.kind, a.namespace, a.name
     LIMIT 10000),
children AS (
    SELECT a.*
      FROM top t
      JOIN applications a ON a.account_id = t.account_id AND a.runtime = t.runtime AND a.parent_namespace = t.namespace
                         AND a.parent_name = t.name AND a.parent_name <> '' AND NOT a.is_deleted
     ORDER BY a.namespace, a.name
     LIMIT 10000),
edges AS (
    SELECT a.id, json_agg(json_build_object('kind', p.kind, 'namespace', p.namespace, 'name', p.name, 'uid', p.uid))
                     AS parents
      FROM below a
     CROSS JOIN LATERAL jsonb_array_elements(a.owners) o
      JOIN below p ON p.uid = o ->> 'uid' AND p.cluster = a.cluster AND p.uid <> ''
     GROUP BY a.id),
nodes AS (
    SELECT 0 AS place, '' AS sort, json_build_object(
               'group', 'argoproj.io', 'version', a.version, 'kind', 'Application', 'namespace', a.namespace,
               'name', a.name, 'uid', a.uid, 'cluster', a.cluster, 'parentRefs', '[]'::json,
               'createdAt', to_char(a.application_created_at, :{rfc3339}), 'images', '[]'::json,
               'health', json_build_object('status', a.health_status), 'status', a.sync_status,
               'freshness', :{entity_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339})) AS node
      FROM top a, r
    UNION ALL
    SELECT 1, a.namespace || '/' || a.name, json_build_object(
               'group', 'argoproj.io', 'version', a.version, 'kind', 'Application', 'namespace', a.namespace,
               'name', a.name, 'uid', a.uid, 'cluster', a.cluster,
               'parentRefs', json_build_array(json_build_object('kind', 'Application', 'namespace', t.namespace,
                                                                'name', t.name, 'uid', t.uid)),
               'createdAt', to_char(a.application_created_at, :{rfc3339}), 'images', '[]'::json,
               'health', json_build_object('status', a.health_status), 'status', a.sync_status,
               'freshness', :{entity_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339}))
      FROM children a, top t, r
    UNION ALL
    SELECT 2, a.cluster || '/' || a.api_group || '/' || a.kind || '/' || a.namespace || '/' || a.name, json_build_object(
               'group', a.api_group, 'version', a.version, 'kind', a.kind, 'namespace', a.namespace, 'name', a.name,
               'uid', a.uid, 'cluster', a.cluster,
               'parentRefs', coalesce(
                   e.parents,
                   json_build_array(json_build_object('kind', 'Application', 'namespace', t.namespace, 'name', t.name,
                                                      'uid', t.uid))),
               'createdAt', to_char(a.resource_created_at, :{rfc3339}), 'images', a.images,
               'health', json_build_object('status', a.health_status), 'status', a.sync_status,
               'freshness', :{entity_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339}))
      FROM below a
      LEFT JOIN edges e ON e.id = a.id
     CROSS JOIN top t
     CROSS JOIN r)
SELECT json_build_object('nodes', (SELECT coalesce(json_agg(n.node ORDER BY n.place, n.sort), '[]'::json) FROM nodes n))
  FROM top
