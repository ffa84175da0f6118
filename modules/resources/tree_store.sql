-- The resource x that a row t of another table is about. LIMIT: what is read in the order of the
-- other table stays in it.
-- fragment: resource_of
LATERAL (SELECT *
           FROM culvert.resources x
          WHERE x.account_id = t.account_id AND x.runtime = t.runtime AND x.cluster = t.cluster
            AND x.api_group = t.api_group AND x.kind = t.kind AND x.namespace = t.namespace AND x.name = t.name
            AND NOT x.is_deleted AND (x.presence IS NULL OR x.presence = 'UNREADABLE')
          LIMIT 1) x

-- The resource a of a part b of a rollout.
-- fragment: resource_of_part
resources a ON a.account_id = b.account_id AND a.runtime = b.runtime AND a.cluster = b.cluster
           AND a.api_group = b.api_group AND a.kind = b.kind AND a.namespace = b.namespace AND a.name = b.name
           AND NOT a.is_deleted AND (a.presence IS NULL OR a.presence = 'UNREADABLE')

-- fragment: tree_application_health
json_build_object('status', a.health_status, 'message', a.health_message,
                  'source', CASE WHEN a.health_status IS NOT NULL THEN 'ARGOCD_STATUS' END)

-- fragment: tree_resource_health
json_build_object('status', a.health_status, 'message', a.health_message, 'source', a.health_source)

-- What an application's status says of a resource that is not at hand, and the right that would show it.
-- fragment: tree_presence
'presence', coalesce(a.presence, 'PRESENT'),
'missingRight', CASE WHEN a.presence = 'UNREADABLE' AND a.api_resource IS NOT NULL THEN json_build_object(
    'group', a.api_group, 'resource', a.api_resource, 'verbs', json_build_array('get', 'list', 'watch'),
    'namespace', nullif(a.namespace, ''),
    'message', 'not readable: the agent lacks the right to get, list and watch ' || a.api_resource ||
               CASE WHEN a.api_group = '' THEN '' ELSE '.' || a.api_group END) END,
'requiresPruning', coalesce(strpos(a.marks, 'REQUIRES_PRUNING') > 0, false),
'hook', coalesce(strpos(a.marks, 'HOOK') > 0, false)

-- fragment: tree_application
'presence', 'PRESENT', 'missingRight', NULL, 'requiresPruning', false, 'hook', false, 'templateImages', '[]'::json

-- The images of a node. i: what its pods name and run. A Pod has no template; it is one of its
-- own pods.
-- fragment: tree_images
'images', coalesce(i.images, a.images), 'runningImages', coalesce(i.running, '[]'),
'templateImages', CASE WHEN a.api_group = '' AND a.kind = 'Pod' THEN '[]' ELSE a.images END

-- What runs in a pod: [{"image", "imageID"}]. A row from before that was kept has the names alone.
-- fragment: pod_running_images
coalesce(a.running_images, (SELECT jsonb_agg(jsonb_build_object('image', n)) FROM jsonb_array_elements(a.images) n), '[]')

-- fragment: running_image_node
jsonb_build_object('image', c.image, 'imageID', c.image_id, 'pods', c.pods)

-- Everything that an application's reports name as its own (what its resources made is told with its name, too), and the
-- applications whose parent it is. Edges by the owners' uids, where there is such an object; what nobody here owns hangs
-- on the application.
-- name: tree_get
WITH RECURSIVE r AS MATERIALIZED (:{runtime_states} AND r.runtime = :runtime),
top AS (
    SELECT *
      FROM applications a
     WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.name = :name
       AND (:namespace = '' OR a.namespace = :namespace) AND NOT a.is_deleted
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
     WHERE a.application_set_uid IS NULL OR a.application_set_uid NOT IN (SELECT b.uid FROM below b)
     UNION ALL
    SELECT a.*
      FROM top t
      JOIN below b ON b.kind = 'ApplicationSet' AND b.api_group = 'argoproj.io' AND b.uid <> ''
      JOIN applications a ON a.account_id = t.account_id AND a.runtime = t.runtime AND a.application_set_uid = b.uid
                         AND NOT a.is_deleted
     ORDER BY namespace, name
     LIMIT 10000),
edges AS (
    SELECT a.id, json_agg(json_build_object('kind', p.kind, 'namespace', p.namespace, 'name', p.name, 'uid', p.uid))
                     AS parents
      FROM below a
     CROSS JOIN LATERAL jsonb_array_elements(a.owners) o
      JOIN below p ON p.uid = o ->> 'uid' AND p.cluster = a.cluster AND p.uid <> ''
     GROUP BY a.id),
above AS (
    SELECT a.id AS pod, a.uid, 0 AS height
      FROM below a
     WHERE a.api_group = '' AND a.kind = 'Pod' AND a.images <> '[]' AND a.uid <> ''
     UNION
    SELECT u.pod, o ->> 'uid', u.height + 1
      FROM above u
      JOIN below a ON a.uid = u.uid AND a.uid <> ''
     CROSS JOIN LATERAL jsonb_array_elements(a.owners) o
     WHERE u.height < 9),
pods AS (
    SELECT DISTINCT u.uid, a.id, a.images, :{pod_running_images} AS running
      FROM above u
      JOIN below a ON a.id = u.pod),
named AS (
    SELECT p.uid, jsonb_agg(DISTINCT n #>> '{}' ORDER BY n #>> '{}') AS images
      FROM pods p, jsonb_array_elements(p.images) n
     GROUP BY p.uid),
counted AS (
    SELECT p.uid, n ->> 'image' AS image, nullif(n ->> 'imageID', '') AS image_id, count(DISTINCT p.id) AS pods
      FROM (SELECT * FROM pods
             UNION ALL
            SELECT '', a.id, a.images, :{pod_running_images} FROM below a WHERE a.api_group = '' AND a.kind = 'Pod') p,
           jsonb_array_elements(p.running) n
     GROUP BY 1, 2, 3),
ran AS (
    SELECT c.uid, jsonb_agg(:{running_image_node} ORDER BY c.image, c.image_id) AS running FROM counted c GROUP BY c.uid),
images AS MATERIALIZED (
    SELECT uid, n.images, r.running FROM named n FULL JOIN ran r USING (uid)),
nodes AS (
    SELECT 0 AS place, '' AS sort, json_build_object(
               'group', 'argoproj.io', 'version', a.version, 'kind', 'Application', 'namespace', a.namespace,
               'name', a.name, 'uid', a.uid, 'cluster', a.cluster, 'parentRefs', '[]'::json,
               'createdAt', to_char(a.application_created_at, :{rfc3339}), 'images', '[]'::json,
               :{tree_application}, 'runningImages', coalesce((SELECT i.running FROM images i WHERE i.uid = ''), '[]'),
               'health', :{tree_application_health}, 'status', a.sync_status,
               'freshness', :{entity_freshness}, 'observedAt', to_char(a.observed_at, :{rfc3339})) AS node
      FROM top a, r
    UNION ALL
    SELECT 1, a.namespace || '/' || a.name, json_build_object(
               'group', 'argoproj.io', 'version', a.version, 'kind', 'Application', 'namespace', a.namespace,
               'name', a.name, 'uid', a.uid, 'cluster', a.cluster,
               'parentRefs', coalesce(
                   (SELECT json_build_array(json_build_object('kind', b.kind, 'namespace', b.namespace, 'name', b.name,
                                                              'uid', b.uid))
                      FROM below b
                     WHERE b.uid = a.application_set_uid AND b.uid <> ''
                     LIMIT 1),
                   json_build_array(json_build_object('kind', 'Application', 'namespace', t.namespace, 'name', t.name,
                                                      'uid', t.uid))),
               'createdAt', to_char(a.application_created_at, :{rfc3339}), 'images', '[]'::json,
               :{tree_application}, 'runningImages', '[]'::json,
               'health', :{tree_application_health}, 'status', a.sync_status,
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
               'createdAt', to_char(a.resource_created_at, :{rfc3339}), :{tree_images},
               :{tree_presence}, 'health', :{tree_resource_health}, 'status', a.sync_status,
               'freshness', CASE WHEN t.errors @> '[{"title": "ResourcesNotRead"}]' AND :{entity_freshness} IN ('live', 'lagging')
                                 THEN 'stale' ELSE :{entity_freshness} END,
               'observedAt', to_char(a.observed_at, :{rfc3339}))
      FROM below a
      LEFT JOIN edges e ON e.id = a.id
      LEFT JOIN images i ON i.uid = a.uid AND a.uid <> ''
     CROSS JOIN top t
     CROSS JOIN r)
SELECT json_build_object('nodes', (SELECT coalesce(json_agg(n.node ORDER BY n.place, n.sort), '[]'::json) FROM nodes n))
  FROM top
