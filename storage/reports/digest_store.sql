-- What the platform holds of a runtime's inventory, as entries and nodes of the digest tree (tunnel/wire/digest_tree.h).
-- Nothing is kept for it beside the rows: one scan of them is cheaper than what an index over a column that changes with
-- every report would cost each of those. Rows that only HTTP reported (epoch 0) are not the agent's.

-- Plans are kept that were made when the tables were empty; a runtime's rows are always found by the primary key.
-- name: digest_by_key
SELECT set_config('enable_seqscan', 'off', true)

-- From here on this session's word is the newest. Takes the position row, so that what was being applied is seen by the
-- statements that follow. No row: no such runtime; f: there is a newer session.
-- name: digest_fence
INSERT INTO report_positions AS p (account_id, runtime, fence_epoch)
SELECT account_id, runtime, :epoch::bigint
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
   FOR KEY SHARE
ON CONFLICT (account_id, runtime) DO UPDATE SET fence_epoch = greatest(p.fence_epoch, excluded.fence_epoch)
RETURNING fence_epoch = :epoch::bigint

-- What is held was found to be what this session's agent has, or it was told what differs: as good as a snapshot that
-- matched. Rows that were told in earlier sessions are confirmed by it (migrations/0008).
-- name: digest_confirm
UPDATE report_positions
   SET snapshot_end_epoch = :epoch::bigint, snapshot_end_sequence = :sequence::bigint
 WHERE account_id = :account_id AND runtime = :runtime AND fence_epoch = :epoch::bigint
   AND (snapshot_end_epoch, snapshot_end_sequence) < (:epoch::bigint, :sequence::bigint)

-- name: digest_holds_any
SELECT FROM resources WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0 AND NOT is_deleted
UNION ALL
SELECT FROM applications WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0 AND NOT is_deleted
LIMIT 1

-- fragment: digest_leaf
get_byte(content_hash, 0) * 16 + get_byte(content_hash, 1) / 16

-- A leaf of no number: live rows that have no entry.
-- name: digest_nodes
SELECT leaf, rows, substring(node FROM 1 FOR 64)::bigint, substring(node FROM 65 FOR 64)::bigint
  FROM (SELECT :{digest_leaf} AS leaf, count(*) AS rows,
               bit_xor(('x' || encode(substring(content_hash FROM 9 FOR 16), 'hex'))::bit(128)) AS node
          FROM (SELECT content_hash FROM resources
                 WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0
                   AND (content_hash IS NOT NULL OR NOT is_deleted)
                UNION ALL
                SELECT content_hash FROM applications
                 WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0
                   AND (content_hash IS NOT NULL OR NOT is_deleted)) r
         GROUP BY 1) n

-- :leaves has a bit a leaf, lowest first; :unread_kinds are kinds that the agent may not read, a line each.
-- name: digest_rows
SELECT encode(content_hash, 'hex'), cluster, api_group, kind, namespace, name, version, uid, :{is_unread}
  FROM resources a, (SELECT string_to_array(:unread_kinds, E'\n') AS kinds) u
 WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0 AND content_hash IS NOT NULL
   AND get_bit(:leaves::bytea, :{digest_leaf}) = 1
UNION ALL
SELECT encode(content_hash, 'hex'), cluster, 'argoproj.io', 'Application', namespace, name, version, uid,
       'argoproj.io/Application' = ANY (string_to_array(:unread_kinds, E'\n'))
  FROM applications
 WHERE account_id = :account_id AND runtime = :runtime AND epoch > 0 AND content_hash IS NOT NULL
   AND get_bit(:leaves::bytea, :{digest_leaf}) = 1
