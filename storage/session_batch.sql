-- Many sessions at once, one transaction for any number of accounts; $1 is the account, $2 a JSON array of its sessions
-- [{"r": runtime, "i": runtime id, "s": session id, "n": instance, "b": boot, "v": agent version, "a": remote}], each runtime once.
-- Several statements, not one: what a rival transaction has committed while the epoch's row was waited for must be seen
-- by those that follow. Rows are locked in the order of their keys, so that no two batches wait for each other.

-- The epoch outlives session and runtime. Nothing happens for a runtime that was deleted or made anew meanwhile.
-- name: sessions_epochs
INSERT INTO runtime_epochs (account_id, runtime, epoch)
SELECT t.account_id, t.runtime, 1
  FROM runtimes t
  JOIN json_to_recordset($2::json) AS x (r text, i text) ON x.r = t.runtime AND x.i = t.runtime_id
 WHERE t.account_id = $1
 ORDER BY t.runtime
   FOR KEY SHARE OF t
ON CONFLICT (account_id, runtime) DO UPDATE SET epoch = runtime_epochs.epoch + 1
RETURNING runtime, epoch

-- name: sessions_supersede
WITH stale AS (
    SELECT s.runtime, s.epoch
      FROM json_to_recordset($2::json) AS x (r text, i text)
      JOIN runtimes t ON t.account_id = $1 AND t.runtime = x.r AND t.runtime_id = x.i
      JOIN tunnel_sessions s ON s.account_id = $1 AND s.runtime = t.runtime AND s.closed_at IS NULL
     ORDER BY s.runtime, s.epoch
       FOR UPDATE OF s)
UPDATE tunnel_sessions s SET closed_at = now(), close_reason = 'superseded'
  FROM stale
 WHERE s.account_id = $1 AND s.runtime = stale.runtime AND s.epoch = stale.epoch

-- Old sessions are kept for a look back, not for ever.
-- name: sessions_open
WITH wanted AS MATERIALIZED (
    SELECT e.account_id, e.runtime, e.epoch, x.*
      FROM json_to_recordset($2::json) AS x (r text, i text, s text, n text, b text, v text, a text)
      JOIN runtimes t ON t.account_id = $1 AND t.runtime = x.r AND t.runtime_id = x.i
      JOIN runtime_epochs e ON e.account_id = $1 AND e.runtime = t.runtime
     ORDER BY e.runtime),
first AS (
    UPDATE runtimes t SET first_session_at = now(), updated_at = now()
      FROM wanted w
     WHERE t.account_id = $1 AND t.runtime = w.runtime AND t.first_session_at IS NULL),
trimmed AS (
    DELETE FROM tunnel_sessions s
     USING wanted w
     WHERE s.account_id = $1 AND s.runtime = w.runtime AND s.epoch <= w.epoch - 200)
INSERT INTO tunnel_sessions (account_id, runtime, epoch, session_id, runtime_id, replica, instance_id, boot_id,
                             agent_version, remote)
SELECT account_id, runtime, epoch, s, i, $3, n, b, v, a FROM wanted

-- A replica that never renewed lives as long as a first lease does. A lease that is good for a while is left alone: all
-- sessions of the replica would wait in line for its row.
-- name: sessions_lease
INSERT INTO replica_leases (replica, expires_at)
SELECT $1, now() + interval '15 seconds'
 WHERE NOT EXISTS (SELECT FROM replica_leases WHERE replica = $1 AND expires_at > now() + interval '5 seconds')
ON CONFLICT (replica) DO UPDATE SET expires_at = greatest(replica_leases.expires_at, excluded.expires_at),
    renewed_at = now()

-- $2: [{"r": runtime, "e": epoch, "c": reason}]
-- name: sessions_close
WITH gone AS (
    SELECT s.runtime, s.epoch, x.c
      FROM json_to_recordset($2::json) AS x (r text, e bigint, c text)
      JOIN tunnel_sessions s ON s.account_id = $1 AND s.runtime = x.r AND s.epoch = x.e AND s.closed_at IS NULL
     ORDER BY s.runtime, s.epoch
       FOR UPDATE OF s)
UPDATE tunnel_sessions s SET closed_at = now(), close_reason = gone.c
  FROM gone
 WHERE s.account_id = $1 AND s.runtime = gone.runtime AND s.epoch = gone.epoch
