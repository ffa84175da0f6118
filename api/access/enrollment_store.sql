-- fragment: enrollment_token_node
json_build_object(
    'id', t.token_id, 'name', t.name, 'namePattern', t.name_pattern, 'usesMax', t.uses_max, 'uses', t.uses,
    'createdBy', t.created_by, 'createdAt', to_char(t.created_at, :{rfc3339}),
    'expiresAt', to_char(t.expires_at, :{rfc3339}), 'lastUsedAt', to_char(t.last_used_at, :{rfc3339}),
    'revokedAt', to_char(t.revoked_at, :{rfc3339}),
    'status', CASE WHEN t.revoked_at IS NOT NULL THEN 'REVOKED' WHEN t.uses >= t.uses_max THEN 'USED_UP'
                   WHEN t.expires_at <= now() THEN 'EXPIRED' ELSE 'VALID' END,
    'runtimes', (SELECT coalesce(json_agg(u.runtime ORDER BY u.used_at DESC, u.runtime), '[]'::json)
                   FROM (SELECT e.runtime, e.used_at
                           FROM enrollment_uses e
                          WHERE e.account_id = t.account_id AND e.token_id = t.token_id
                          ORDER BY e.used_at DESC, e.runtime LIMIT 100) AS u))

-- The account is locked, so that two who make a token at once count each other's.
-- name: enrollment_account_hold
SELECT account_id FROM accounts WHERE account_id = :account_id FOR UPDATE

-- What ended a month ago makes room: nothing else deletes it.
-- name: enrollment_tokens_sweep
DELETE FROM enrollment_tokens t
 WHERE t.account_id = :account_id AND least(t.revoked_at, t.expires_at) < now() - interval '30 days'

-- name: enrollment_token_create
INSERT INTO enrollment_tokens AS t (account_id, token_id, name, secret_sha256, name_pattern, uses_max, created_by,
                                    expires_at)
SELECT a.account_id, :token_id, :name, :secret_sha256, :name_pattern, :uses_max::integer, :created_by,
       now() + :life_s::bigint * interval '1 second'
  FROM accounts a
 WHERE a.account_id = :account_id
   AND (SELECT count(*) FROM enrollment_tokens o WHERE o.account_id = :account_id) < :tokens_max::bigint
RETURNING :{enrollment_token_node}

-- name: enrollment_token_list
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{enrollment_token_node} AS node
          FROM enrollment_tokens t
         WHERE t.account_id = :account_id
         ORDER BY t.created_at DESC, t.token_id LIMIT :limit::integer) AS tokens

-- name: enrollment_token_revoke
UPDATE enrollment_tokens SET revoked_at = now()
 WHERE account_id = :account_id AND token_id = :token_id AND revoked_at IS NULL

-- A definer's function: row-level security shows no role the tokens of several accounts.
-- name: enrollment_token_find
SELECT account_id, name, encode(secret_sha256, 'hex') FROM enrollment_lookup(:token_id)

-- name: enrollment_use
SELECT enroll(:account_id, :token_id, :runtime, :runtime_id, :runtime_token_id, :secret, :proof)
