-- Many sessions at once, one transaction for any number of accounts; :sessions is a JSON array of the account's sessions
-- [{"r": runtime, "i": runtime id, "s": session id, "n": instance, "b": boot, "v": agent version, "a": remote, "w": it has
-- stood by}], each runtime once, in the order of runtimes. Several statements, not one: what a rival transaction has committed while the epoch's row was
-- waited for must be seen by those that follow.
--
-- Each is written as the loop that it must be: the array outside, a look at one key inside (LATERAL, with OFFSET 0 or a
-- lock so that it stays that way), rows changed by their place (ctid) once they were found. The planner cannot guess how
-- long an array is, and plans are kept that were made when the tables were empty: left to itself it reads whole tables for
-- a handful of rows. So rows are locked in the order of the array, too, and no two batches wait for each other.

-- name: sessions_by_key
SELECT set_config('enable_seqscan', 'off', true)

-- Whoever asks for the same runtime waits here, so that what is decided next sees all that was decided before.
-- name: sessions_lock
SELECT e.epoch
  FROM json_to_recordset(:sessions::json) AS x (r text)
 CROSS JOIN LATERAL (
       SELECT epoch FROM runtime_epochs WHERE account_id = :account_id AND runtime = x.r
          FOR UPDATE) e

-- The epoch outlives session and runtime. After a restore of an older backup sessions from before it may still have
-- reported: the next epoch is above theirs, too. Nothing happens for a runtime that was deleted or made anew meanwhile.
--
-- Newest wins, unless the runtime's agents are rivals: this would be the third take-over from a living instance within a
-- minute, and whoever asks has served within it (an update brings instances that have not). They stay rivals for ten
-- minutes after the last sign of it. Of rivals the one with the lower id serves; the others stand by and keep asking ("w"),
-- and who has stood by takes over from nobody that lives. Then the epoch stays, and stood_by_at is this moment.
-- name: sessions_epochs
WITH asked AS MATERIALIZED (
    SELECT t.account_id, t.runtime, x.n, coalesce(x.w, false) AS waits, s.instance_id AS serving,
           s.instance_id IS NOT NULL
           AND (coalesce(e.rivals_until > now(), false) OR (h.take_overs >= 2 AND h.has_served)) AS rivals
      FROM json_to_recordset(:sessions::json) AS x (r text, i text, n text, w boolean)
     CROSS JOIN LATERAL (
           SELECT account_id, runtime FROM runtimes
            WHERE account_id = :account_id AND runtime = x.r AND runtime_id = x.i
              FOR KEY SHARE) t
      LEFT JOIN LATERAL (
           SELECT epoch, rivals_until FROM runtime_epochs WHERE account_id = :account_id AND runtime = t.runtime
           OFFSET 0) e ON true
      LEFT JOIN LATERAL (
           SELECT o.instance_id
             FROM (SELECT instance_id, replica FROM tunnel_sessions
                    WHERE account_id = :account_id AND runtime = t.runtime AND epoch = e.epoch AND closed_at IS NULL
                      AND instance_id <> x.n
                   OFFSET 0) o
            WHERE EXISTS (SELECT FROM replica_leases l WHERE l.replica = o.replica AND l.expires_at > now() OFFSET 0)
           OFFSET 0) s ON true
      LEFT JOIN LATERAL (
           SELECT count(*) FILTER (WHERE p.close_reason = 'superseded' AND p.instance_id <> q.instance_id) AS take_overs,
                  bool_or(p.instance_id = x.n) AS has_served
             FROM tunnel_sessions p
             LEFT JOIN tunnel_sessions q ON q.account_id = :account_id AND q.runtime = p.runtime
                                       AND q.epoch = p.epoch + 1
            WHERE p.account_id = :account_id AND p.runtime = t.runtime AND p.epoch > e.epoch - 20
              AND p.closed_at > now() - interval '1 minute' AND s.instance_id IS NOT NULL) h ON true)
INSERT INTO runtime_epochs AS own (account_id, runtime, epoch, rivals_until, stood_by_at)
SELECT a.account_id, a.runtime,
       1 + coalesce((SELECT greatest(p.epoch, p.fence_epoch) FROM report_positions p
                      WHERE p.account_id = a.account_id AND p.runtime = a.runtime), 0),
       CASE WHEN a.rivals THEN now() + interval '10 minutes' END,
       CASE WHEN a.serving IS NOT NULL AND (a.waits OR (a.rivals AND a.serving < a.n)) THEN now() END
  FROM asked a
ON CONFLICT (account_id, runtime) DO UPDATE
   SET epoch = CASE WHEN excluded.stood_by_at IS NULL THEN greatest(own.epoch + 1, excluded.epoch) ELSE own.epoch END,
       rivals_until = greatest(own.rivals_until, excluded.rivals_until),
       stood_by_at = excluded.stood_by_at
RETURNING runtime, epoch, stood_by_at IS NOT NULL

-- name: sessions_supersede
WITH stale AS MATERIALIZED (
    SELECT s.place
      FROM json_to_recordset(:sessions::json) AS x (r text, i text)
     CROSS JOIN LATERAL (
           SELECT runtime FROM runtimes WHERE account_id = :account_id AND runtime = x.r
                  AND runtime_id = x.i OFFSET 0) t
     CROSS JOIN LATERAL (
           SELECT FROM runtime_epochs WHERE account_id = :account_id AND runtime = t.runtime
                  AND stood_by_at IS NULL OFFSET 0) e
     CROSS JOIN LATERAL (
           SELECT ctid AS place FROM tunnel_sessions
            WHERE account_id = :account_id AND runtime = t.runtime AND closed_at IS NULL
            ORDER BY epoch
              FOR UPDATE) s)
UPDATE tunnel_sessions s SET closed_at = now(), close_reason = 'superseded' FROM stale WHERE s.ctid = stale.place

-- Old sessions are kept for a look back, not for ever.
-- name: sessions_open
WITH wanted AS MATERIALIZED (
    SELECT e.account_id, e.runtime, e.epoch, t.place, t.is_first, x.*
      FROM json_to_recordset(:sessions::json) AS x (r text, i text, s text, n text, b text, v text, a text)
     CROSS JOIN LATERAL (
           SELECT runtime, ctid AS place, first_session_at IS NULL AS is_first FROM runtimes
            WHERE account_id = :account_id AND runtime = x.r AND runtime_id = x.i
           OFFSET 0) t
     CROSS JOIN LATERAL (
           SELECT account_id, runtime, epoch FROM runtime_epochs
            WHERE account_id = :account_id AND runtime = t.runtime AND stood_by_at IS NULL
           OFFSET 0) e),
first AS (
    UPDATE runtimes t SET first_session_at = now(), updated_at = now()
      FROM wanted w
     WHERE w.is_first AND t.ctid = w.place AND t.first_session_at IS NULL),
old AS MATERIALIZED (
    SELECT s.place
      FROM wanted w
     CROSS JOIN LATERAL (
           SELECT ctid AS place FROM tunnel_sessions
            WHERE account_id = :account_id AND runtime = w.runtime AND epoch <= w.epoch - 200
           OFFSET 0) s),
trimmed AS (
    DELETE FROM tunnel_sessions s USING old WHERE s.ctid = old.place)
INSERT INTO tunnel_sessions (account_id, runtime, epoch, session_id, runtime_id, replica, instance_id, boot_id,
                             agent_version, remote)
SELECT account_id, runtime, epoch, s, i, :replica, n, b, v, a FROM wanted

-- A replica that never renewed lives as long as a first lease does. A lease that is good for a while is left alone: all
-- sessions of the replica would wait in line for its row.
-- name: sessions_lease
INSERT INTO replica_leases (replica, expires_at)
SELECT :replica, now() + interval '15 seconds'
 WHERE NOT EXISTS (SELECT FROM replica_leases WHERE replica = :replica AND expires_at > now() + interval '5 seconds')
ON CONFLICT (replica) DO UPDATE SET expires_at = greatest(replica_leases.expires_at, excluded.expires_at),
    renewed_at = now()

-- :sessions: [{"r": runtime, "e": epoch, "b": behind, "u": blind}], milliseconds; 0: not at all.
-- name: sessions_lag
WITH told AS MATERIALIZED (
    SELECT s.place, nullif(x.b, 0) AS behind_ms, nullif(x.u, 0) AS blind_ms
      FROM json_to_recordset(:sessions::json) AS x (r text, e bigint, b bigint, u bigint)
     CROSS JOIN LATERAL (
           SELECT ctid AS place FROM tunnel_sessions
            WHERE account_id = :account_id AND runtime = x.r AND epoch = x.e AND closed_at IS NULL
              FOR UPDATE) s)
UPDATE tunnel_sessions s
   SET behind_since = now() - told.behind_ms * interval '1 millisecond',
       blind_since = now() - told.blind_ms * interval '1 millisecond'
  FROM told
 WHERE s.ctid = told.place

-- :sessions: [{"r": runtime, "e": epoch, "c": reason, "k": cause, "h": milliseconds since the agent was heard}]
-- name: sessions_close
WITH gone AS MATERIALIZED (
    SELECT s.place, x.*
      FROM json_to_recordset(:sessions::json) AS x (r text, e bigint, c text, k text, h bigint)
     CROSS JOIN LATERAL (
           SELECT ctid AS place FROM tunnel_sessions
            WHERE account_id = :account_id AND runtime = x.r AND epoch = x.e AND closed_at IS NULL
              FOR UPDATE) s)
UPDATE tunnel_sessions s
   SET closed_at = now(), close_reason = gone.c, close_cause = gone.k,
       last_heard_at = now() - gone.h * interval '1 millisecond'
  FROM gone
 WHERE s.ctid = gone.place
