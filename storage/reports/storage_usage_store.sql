-- What accounts and runtimes store, and their quotas (migrations/0026).

-- name: storage_open
SELECT storage_open(:account_id, :runtime, :counter, :bytes::bigint, :rows::bigint, :reserved_bytes::bigint)

-- :counter is that of this transaction, :refused the reports that it refused for want of room.
-- name: storage_add
INSERT INTO storage_usage AS u (account_id, runtime, bytes, rows, refused, refused_at)
SELECT r.account_id, r.runtime, c.added - (c.rows << 40), c.rows, :refused::bigint,
       CASE WHEN :refused::bigint > 0 THEN now() END
  FROM runtimes r,
       (SELECT s.added, (s.added + 549755813888) >> 40 AS rows
          FROM (SELECT current_setting(:counter)::bigint AS added) s) c
 WHERE r.account_id = :account_id AND r.runtime = :runtime AND (c.added <> 0 OR :refused::bigint > 0)
ON CONFLICT (account_id, runtime) DO UPDATE
   SET bytes = u.bytes + excluded.bytes, rows = u.rows + excluded.rows, refused = u.refused + excluded.refused,
       refused_at = coalesce(excluded.refused_at, u.refused_at)

-- name: storage_room
SELECT left_bytes, left_rows, reserve, scope,
       coalesce(CASE scope WHEN 'account' THEN limit_bytes ELSE runtime_limit_bytes END::text, 'any'),
       coalesce(CASE scope WHEN 'account' THEN limit_rows ELSE runtime_limit_rows END::text, 'any')
  FROM storage_room(:account_id, :runtime)

-- Of one object: whether it is there, also deleted; and what its manifests come to in plain text, NULL when it is not.
-- fragment: plain_bytes_of
(SELECT coalesce(sum(m.plain_bytes), 0)
   FROM unnest(ARRAY[t.manifest_sha256, t.desired_sha256, t.git_sha256]) AS n (sha256)
   JOIN manifests m ON m.account_id = :account_id AND m.sha256 = n.sha256)

-- name: storage_of_application
SELECT t.is_deleted, :{plain_bytes_of} FROM applications t
 WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.namespace = :namespace AND t.name = :name

-- name: storage_of_resource
SELECT t.is_deleted, :{plain_bytes_of} FROM resources t
 WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.cluster = :cluster AND t.api_group = :api_group
   AND t.kind = :kind AND t.namespace = :namespace AND t.name = :name

-- name: storage_of_cluster
SELECT t.is_deleted, octet_length(t.labels::text) + octet_length(t.namespaces::text) +
       coalesce(octet_length(t.api_versions::text), 0)
  FROM clusters t WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.name = :name

-- name: storage_fold
SELECT storage_usage_fold(:limit::integer)

-- name: storage_recount
SELECT storage_recount(:account_id)

-- 0 for the platform's setting, -1 for no change.
-- name: storage_set_quota
UPDATE accounts
   SET quota_bytes = CASE :bytes::bigint WHEN -1 THEN quota_bytes ELSE nullif(:bytes::bigint, 0) END,
       quota_rows = CASE :rows::bigint WHEN -1 THEN quota_rows ELSE nullif(:rows::bigint, 0) END,
       quota_runtime_bytes = CASE :runtime_bytes::bigint
           WHEN -1 THEN quota_runtime_bytes ELSE nullif(:runtime_bytes::bigint, 0) END,
       quota_runtime_rows = CASE :runtime_rows::bigint
           WHEN -1 THEN quota_runtime_rows ELSE nullif(:runtime_rows::bigint, 0) END
 WHERE account_id = :account_id

-- name: storage_usage
SELECT jsonb_build_object(
           'bytes', r.used_bytes, 'rows', r.used_rows, 'bytesMax', r.limit_bytes, 'rowsMax', r.limit_rows, 'runtimes',
           (SELECT coalesce(jsonb_agg(jsonb_build_object(
                                'runtime', u.runtime, 'bytes', u.bytes, 'rows', u.rows,
                                'bytesMax', CASE WHEN u.runtime <> '' THEN r.runtime_limit_bytes END,
                                'rowsMax', CASE WHEN u.runtime <> '' THEN r.runtime_limit_rows END,
                                'refused', u.refused, 'refusedAt', to_char(u.refused_at, :{rfc3339}))
                            ORDER BY u.runtime), '[]')
              FROM (SELECT s.runtime, sum(s.bytes) AS bytes, sum(s.rows) AS rows, sum(s.refused) AS refused,
                           max(s.refused_at) AS refused_at
                      FROM (SELECT runtime, bytes, rows, refused, refused_at
                              FROM storage_usage
                             WHERE account_id = :account_id
                            UNION ALL
                            SELECT runtime, bytes, rows, 0, NULL FROM storage_usage_changes
                             WHERE account_id = :account_id) s
                     GROUP BY s.runtime) u))
  FROM accounts a, storage_room(a.account_id, '') r
 WHERE a.account_id = :account_id

-- CTEs of a statement about runtimes: what each stores, and the quotas of the account.
-- fragment: storage_of_runtimes
room AS MATERIALIZED (SELECT * FROM storage_room(:account_id, '')),
used AS MATERIALIZED (
    SELECT s.runtime, sum(s.bytes) AS bytes, sum(s.rows) AS rows, sum(s.refused) AS refused,
           max(s.refused_at) AS refused_at
      FROM (SELECT runtime, bytes, rows, refused, refused_at FROM storage_usage WHERE account_id = :account_id
            UNION ALL
            SELECT runtime, bytes, rows, 0, NULL FROM storage_usage_changes WHERE account_id = :account_id) s
     GROUP BY s.runtime)

-- Of a runtime (room, used as above): the quota that is nearest to its end, when nine tenths of it
-- are used or a report was refused within the last 15 minutes. An agent offers what was refused
-- again every 5 minutes.
-- fragment: runtime_storage_finding
SELECT CASE WHEN n.is_refused OR n.ratio >= 1 THEN 'ERROR' ELSE 'WARNING' END AS level,
       format('storage quota of the %s: %s of %s bytes and %s of %s rows are used%s (STORAGE_QUOTA)', n.scope, n.bytes,
              coalesce(n.bytes_max::text, 'any'), n.rows, coalesce(n.rows_max::text, 'any'),
              CASE WHEN n.is_refused THEN '; reports are refused, the last at ' || to_char(used.refused_at, :{rfc3339})
              ELSE '' END) AS message,
       'delete objects, or raise the quota: culvertd admin set-quota' AS suggestion
  FROM (SELECT v.*, greatest(v.bytes / v.bytes_max, v.rows / v.rows_max, 0) AS ratio,
               coalesce(used.refused_at > now() - interval '15 minutes', false) AS is_refused
          FROM (VALUES ('runtime', coalesce(used.bytes, 0), room.runtime_limit_bytes::numeric, coalesce(used.rows, 0),
                        room.runtime_limit_rows::numeric),
                       ('account', room.used_bytes, room.limit_bytes, room.used_rows, room.limit_rows))
               v (scope, bytes, bytes_max, rows, rows_max)) n
 WHERE n.is_refused OR n.ratio >= 0.9
 ORDER BY n.ratio DESC
 LIMIT 1

-- fragment: runtime_storage_node
json_build_object('bytes', coalesce(used.bytes, 0), 'rows', coalesce(used.rows, 0),
    'bytesMax', room.runtime_limit_bytes, 'rowsMax', room.runtime_limit_rows, 'refused', coalesce(used.refused, 0),
    'refusedAt', to_char(used.refused_at, :{rfc3339}))

-- name: storage_limits_status
WITH :{storage_of_runtimes}
SELECT jsonb_build_object(
           'planType', 'GITOPS_PLAN', 'limits', NULL,
           'usage', json_build_object(
               'applications', (SELECT count(*) FROM applications WHERE account_id = :account_id AND NOT is_deleted),
               'clusters', (SELECT count(*) FROM clusters WHERE account_id = :account_id AND NOT is_deleted)),
           'status', coalesce(room.used_bytes < room.limit_bytes, true) AND
                     coalesce(room.used_rows < room.limit_rows, true),
           'storage', json_build_object(
               'bytes', room.used_bytes, 'rows', room.used_rows, 'bytesMax', room.limit_bytes,
               'rowsMax', room.limit_rows, 'refused', (SELECT coalesce(sum(u.refused), 0) FROM used u),
               'refusedAt', (SELECT to_char(max(u.refused_at), :{rfc3339}) FROM used u)))
  FROM room
