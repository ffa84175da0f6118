-- name: replica_renew
INSERT INTO replica_leases (replica, expires_at) VALUES ($1, now() + $2::bigint * interval '1 millisecond')
ON CONFLICT (replica) DO UPDATE SET expires_at = excluded.expires_at, renewed_at = now()

-- name: replica_trim
DELETE FROM replica_leases WHERE expires_at < now() - interval '7 days' AND replica <> $1

-- name: replica_forget
SELECT sessions_forget_replica($1)
