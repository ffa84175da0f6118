-- name: replica_renew
INSERT INTO replica_leases (replica, expires_at, peer_address)
VALUES (:replica, now() + :ttl_ms::bigint * interval '1 millisecond', :peer_address)
ON CONFLICT (replica) DO UPDATE SET expires_at = excluded.expires_at, renewed_at = now(),
    peer_address = excluded.peer_address

-- What was ended since the last answer to this question, and a while before: whoever ended it began earlier than it
-- became visible. The first row is the time to ask with next.
-- name: sessions_ended
SELECT now()::text, NULL, NULL
UNION ALL
SELECT account_id, runtime, epoch::text
  FROM sessions_ended(:replica, :since::timestamptz - interval '20 seconds')

-- Who holds the runtime's newest session, and for how long nobody has.
-- name: session_find
SELECT s.epoch, s.replica, coalesce(l.peer_address, ''), coalesce(s.closed_at IS NULL AND l.expires_at > now(), false),
       greatest(extract(epoch FROM now() - coalesce(s.closed_at, l.expires_at, s.opened_at)) * 1000, 0)::bigint
  FROM tunnel_sessions s
  LEFT JOIN replica_leases l ON l.replica = s.replica
 WHERE s.account_id = :account_id AND s.runtime = :runtime
 ORDER BY s.epoch DESC
 LIMIT 1

-- name: tunnels_measured
SELECT tunnels_measured(:measures::json)

-- name: tunnels_list
SELECT coalesce(json_agg(node), '[]'::json) FROM tunnels_list(:account_id, :limit::integer)

-- name: replica_trim
DELETE FROM replica_leases WHERE expires_at < now() - interval '7 days' AND replica <> :replica

-- name: replica_forget
SELECT sessions_forget_replica(:replica)
