-- A repeated end never takes back what was said about the same one.
-- name: snapshot_verdict_put
INSERT INTO snapshot_verdicts AS t (account_id, runtime, epoch, sequence, needs_resync)
SELECT account_id, runtime, :epoch::bigint, :sequence::bigint, :needs_resync::boolean
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
   FOR KEY SHARE
ON CONFLICT (account_id, runtime) DO UPDATE
   SET epoch = excluded.epoch, sequence = excluded.sequence, needs_resync = excluded.needs_resync, decided_at = now()
 WHERE (excluded.epoch, excluded.sequence) > (t.epoch, t.sequence)

-- name: snapshot_verdict_find
SELECT needs_resync
  FROM snapshot_verdicts
 WHERE account_id = :account_id AND runtime = :runtime AND epoch = :epoch::bigint AND sequence >= :sequence::bigint
