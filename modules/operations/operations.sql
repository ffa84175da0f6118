-- type: RuntimeOperation
-- from: culvert.operations o
-- key: o.operation_id
-- scope: o.account_id = :account_id
-- access: operation
-- query: operations
-- query: operation(id = o.operation_id)
-- field: id = o.operation_id
-- field: bulkId = o.bulk_id
-- field: action = o.action
-- field: state = o.state
-- field: code = o.code
-- field: message = o.message
-- field: runtime = o.runtime
-- field: group = o.api_group
-- field: kind = o.kind
-- field: namespace = o.namespace
-- field: name = o.name
-- field: uid = o.uid
-- field: resourceVersion = o.resource_version
-- field: idempotencyKey = o.idempotency_key
-- field: requestedBy.id = o.requested_by
-- field: requestedBy.name = o.requested_by_name
-- field: attempts = o.attempts
-- field: createdAt = time(o.created_at)
-- field: acceptedAt = time(o.accepted_at)
-- field: startedAt = time(o.started_at)
-- field: finishedAt = time(o.finished_at)
-- field: expiresAt = time(o.expires_at)
-- filter: runtime text = o.runtime = :value
-- filter: namespace text = o.namespace = :value
-- filter: name text = o.name = :value
-- filter: kind text = o.kind = :value
-- filter: states text[] = o.state = ANY (:value)
-- filter: actions text[] = o.action = ANY (:value)
-- filter: bulkId text = o.bulk_id = :value
-- filter: requestedBy text = o.requested_by = :value
-- order: NEWEST = o.operation_id DESC

-- The runtime's row, and whether the account has room. One row at most.
-- name: operation_room
SELECT r.runtime_id,
       (SELECT count(*) FROM operations o
         WHERE o.account_id = :account_id AND o.state IN ('WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING')),
       :kind <> 'Application' OR EXISTS (
           SELECT FROM applications a
            WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.namespace = :namespace AND a.name = :name
              AND NOT a.is_deleted)
  FROM runtimes r
 WHERE r.account_id = :account_id AND r.runtime = :runtime

-- 1 when the object is known, but in other clusters than its Application alone: the agent's own is
-- where Applications are. Clusters of a runtime are few; each is looked up by the primary key.
-- name: operation_is_elsewhere
WITH RECURSIVE clusters AS (
    (SELECT cluster FROM resources WHERE account_id = :account_id AND runtime = :runtime ORDER BY cluster LIMIT 1)
    UNION ALL
    SELECT (SELECT x.cluster FROM resources x
             WHERE x.account_id = :account_id AND x.runtime = :runtime AND x.cluster > c.cluster
             ORDER BY x.cluster LIMIT 1)
      FROM clusters c
     WHERE c.cluster IS NOT NULL
), found AS (
    SELECT x.cluster <> a.cluster AS is_elsewhere
      FROM clusters c
      JOIN resources x ON x.account_id = :account_id AND x.runtime = :runtime AND x.cluster = c.cluster
                      AND x.api_group = :api_group AND x.kind = :kind AND x.namespace = :namespace AND x.name = :name
                      AND NOT x.is_deleted AND x.uid <> '' -- it was seen
      JOIN applications a ON a.account_id = :account_id AND a.runtime = :runtime
                         AND a.namespace = x.application_namespace AND a.name = x.application_name
)
SELECT coalesce(bool_and(is_elsewhere), false)::integer FROM found

-- name: operation_add
INSERT INTO operations (account_id, operation_id, runtime, runtime_id, action, api_group, kind, namespace, name, uid,
                        resource_version, parameters, requested_by, requested_by_name, idempotency_key, request_sha256,
                        expires_at)
SELECT :account_id, :operation_id, r.runtime, r.runtime_id, :action, :api_group, :kind, :namespace, :name, :uid,
       :resource_version, :parameters::jsonb, :requested_by, :requested_by_name, :idempotency_key, :request_sha256,
       now() + :expires_in_ms::bigint * interval '1 millisecond'
  FROM runtimes r
 WHERE r.account_id = :account_id AND r.runtime = :runtime
   AND (:kind <> 'Application' OR EXISTS (
        SELECT FROM applications a
         WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.namespace = :namespace AND a.name = :name
           AND NOT a.is_deleted))
   AND (SELECT count(*) FROM operations o
         WHERE o.account_id = :account_id AND o.state IN ('WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING'))
       < :open_max::bigint
ON CONFLICT (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING

-- The one that this call added, or the one that has its key.
-- name: operation_added
SELECT operation_id, request_sha256 = :request_sha256
  FROM operations
 WHERE account_id = :account_id
   AND (operation_id = :operation_id OR idempotency_key = :idempotency_key)

-- What the mutation answers; its fields are those of the declared read above.
-- name: operation_node
SELECT jsonb_build_object(
    'id', o.operation_id, 'bulkId', o.bulk_id, 'action', o.action, 'state', o.state, 'code', o.code,
    'message', o.message, 'runtime', o.runtime, 'group', o.api_group, 'kind', o.kind, 'namespace', o.namespace,
    'name', o.name, 'uid', o.uid, 'resourceVersion', o.resource_version, 'idempotencyKey', o.idempotency_key,
    'requestedBy', json_build_object('id', o.requested_by, 'name', o.requested_by_name), 'attempts', o.attempts,
    'createdAt', to_char(o.created_at, :{rfc3339}), 'acceptedAt', to_char(o.accepted_at, :{rfc3339}),
    'startedAt', to_char(o.started_at, :{rfc3339}), 'finishedAt', to_char(o.finished_at, :{rfc3339}),
    'expiresAt', to_char(o.expires_at, :{rfc3339}))
  FROM operations o
 WHERE o.account_id = :account_id AND o.operation_id = :operation_id

-- name: operation_trim
SELECT operations_trim(:keep_days::integer, :rows::integer)
