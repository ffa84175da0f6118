-- The epoch outlives session and runtime. Nothing happens for a runtime that was deleted or made anew meanwhile.
-- name: session_epoch
INSERT INTO runtime_epochs (account_id, runtime, epoch)
SELECT account_id, runtime, 1 FROM runtimes WHERE account_id = $1 AND runtime = $2 AND runtime_id = $3
   FOR KEY SHARE
ON CONFLICT (account_id, runtime) DO UPDATE SET epoch = runtime_epochs.epoch + 1
RETURNING epoch

-- name: session_supersede
UPDATE tunnel_sessions s SET closed_at = now(), close_reason = 'superseded'
  FROM runtimes r
 WHERE r.account_id = $1 AND r.runtime = $2 AND r.runtime_id = $3
   AND s.account_id = $1 AND s.runtime = $2 AND s.closed_at IS NULL

-- A replica that never renewed lives as long as a first lease does.
-- name: session_lease
INSERT INTO replica_leases (replica, expires_at) VALUES ($1, now() + interval '15 seconds')
ON CONFLICT (replica) DO UPDATE SET expires_at = greatest(replica_leases.expires_at, excluded.expires_at),
    renewed_at = now()

-- name: session_open
INSERT INTO tunnel_sessions (account_id, runtime, epoch, session_id, runtime_id, replica, instance_id, boot_id,
                             agent_version, remote)
SELECT e.account_id, e.runtime, e.epoch, $4, $3, $5, $6, $7, $8, $9
  FROM runtime_epochs e
  JOIN runtimes r ON r.account_id = e.account_id AND r.runtime = e.runtime AND r.runtime_id = $3
 WHERE e.account_id = $1 AND e.runtime = $2

-- name: session_first
UPDATE runtimes SET first_session_at = now(), updated_at = now()
 WHERE account_id = $1 AND runtime = $2 AND runtime_id = $3 AND first_session_at IS NULL

-- Old sessions are kept for a look back, not for ever.
-- name: session_trim
DELETE FROM tunnel_sessions s
 USING runtime_epochs e
 WHERE e.account_id = $1 AND e.runtime = $2 AND s.account_id = $1 AND s.runtime = $2 AND s.epoch <= e.epoch - 200

-- name: session_close
UPDATE tunnel_sessions SET closed_at = now(), close_reason = $4
 WHERE account_id = $1 AND runtime = $2 AND epoch = $3::bigint AND closed_at IS NULL

-- name: replica_renew
INSERT INTO replica_leases (replica, expires_at) VALUES ($1, now() + $2::bigint * interval '1 millisecond')
ON CONFLICT (replica) DO UPDATE SET expires_at = excluded.expires_at, renewed_at = now()

-- name: replica_trim
DELETE FROM replica_leases WHERE expires_at < now() - interval '7 days' AND replica <> $1

-- name: replica_forget
SELECT sessions_forget_replica($1)
