-- name: flapping_put
INSERT INTO noisy_objects AS t (account_id, runtime, api_group, kind, namespace, name, changes, first_at, last_at)
SELECT account_id, runtime, :api_group, :kind, :namespace, :name, :changes::bigint, least(:first_at::timestamptz,
       now()), now()
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
   FOR KEY SHARE
ON CONFLICT (account_id, runtime, api_group, kind, namespace, name) DO UPDATE
   SET changes = CASE WHEN t.last_at < now() - interval '10 minutes' THEN 0 ELSE t.changes END + excluded.changes,
       first_at = CASE WHEN t.last_at < now() - interval '10 minutes' THEN excluded.first_at ELSE t.first_at END,
       last_at = now()

-- name: flapping_trim
DELETE FROM noisy_objects
 WHERE account_id = :account_id AND runtime = :runtime
   AND (last_at < now() - interval '1 day'
        OR (api_group, kind, namespace, name) IN (SELECT api_group, kind, namespace, name
                                                    FROM noisy_objects
                                                   WHERE account_id = :account_id AND runtime = :runtime
                                                   ORDER BY last_at DESC, changes DESC
                                                  OFFSET 100))

-- What a runtime (r) shows as its noisy objects: those of the last ten minutes, the noisiest first.
-- fragment: noisy_objects_node
(SELECT coalesce(json_agg(json_build_object(
            'group', n.api_group, 'kind', n.kind, 'namespace', nullif(n.namespace, ''), 'name', n.name,
            'changes', least(n.changes, 2147483647),
            'changesPerMinute', round(n.changes * 60 / greatest(extract(epoch FROM n.last_at - n.first_at), 60)),
            'firstSeen', to_char(n.first_at, :{rfc3339}), 'lastSeen', to_char(n.last_at, :{rfc3339}))
            ORDER BY n.changes DESC, n.kind, n.namespace, n.name), '[]'::json)
   FROM (SELECT *
           FROM noisy_objects
          WHERE account_id = r.account_id AND runtime = r.runtime AND last_at > now() - interval '10 minutes'
          ORDER BY changes DESC
          LIMIT 50) n)
