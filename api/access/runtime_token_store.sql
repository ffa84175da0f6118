-- The runtime's row is held, so that two who make a token at once count each other's.
-- name: runtime_hold
SELECT runtime_id FROM runtimes WHERE account_id = :account_id AND runtime = :runtime FOR NO KEY UPDATE

-- fragment: runtime_token_is_valid
(t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()))

-- fragment: runtime_token_node
json_build_object(
    'id', t.token_id, 'name', t.name, 'runtime', t.runtime, 'createdAt', to_char(t.created_at, :{rfc3339}),
    'expiresAt', to_char(t.expires_at, :{rfc3339}), 'lastUsedAt', to_char(t.last_used_at, :{rfc3339}),
    'replacedAt', to_char(t.replaced_at, :{rfc3339}), 'revokedAt', to_char(t.revoked_at, :{rfc3339}),
    'status', CASE WHEN t.revoked_at IS NOT NULL THEN 'REVOKED' WHEN t.expires_at <= now() THEN 'EXPIRED'
                   WHEN t.replaced_at IS NOT NULL THEN 'REPLACED' ELSE 'VALID' END)

-- name: runtime_token_add
INSERT INTO runtime_tokens AS t (account_id, token_id, runtime, runtime_id, secret_sha256, change, name, expires_at)
SELECT r.account_id, :token_id, r.runtime, r.runtime_id, :secret_sha256, 0, :name,
       now() + :expires_in_ms::bigint * interval '1 millisecond'
  FROM runtimes r
 WHERE r.account_id = :account_id AND r.runtime = :runtime
   AND (SELECT count(*) FROM runtime_tokens t
         WHERE t.account_id = r.account_id AND t.runtime = r.runtime
           AND :{runtime_token_is_valid}) < :valid_max::bigint
RETURNING :{runtime_token_node}

-- Nothing ends when the new token was not made.
-- name: runtime_tokens_end_others
UPDATE runtime_tokens t
   SET expires_at = least(t.expires_at, now() + :grace_ms::bigint * interval '1 millisecond'),
       replaced_at = coalesce(t.replaced_at, now())
 WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.token_id <> :token_id AND :{runtime_token_is_valid}
   AND EXISTS (SELECT FROM runtime_tokens made WHERE made.account_id = :account_id AND made.token_id = :token_id)

-- name: runtime_token_list
SELECT (SELECT coalesce(json_agg(:{runtime_token_node} ORDER BY t.created_at DESC, t.token_id), '[]'::json)
          FROM runtime_tokens t
         WHERE t.account_id = r.account_id AND t.runtime = r.runtime AND t.runtime_id = r.runtime_id)
  FROM runtimes r
 WHERE r.account_id = :account_id AND r.runtime = :runtime

-- name: runtime_token_revoke
UPDATE runtime_tokens t SET revoked_at = now()
 WHERE t.account_id = :account_id AND t.runtime = :runtime AND t.token_id = :token_id AND :{runtime_token_is_valid}

-- name: runtime_tokens_changed
SELECT change, token_id, account_id, account_name, runtime, runtime_id, encode(secret_sha256, 'hex'), is_revoked,
       expires_in_ms, warns_in_ms
  FROM runtime_tokens_changed(:change::bigint, :limit::integer)

-- Unless it changed since it was read. Gives it a new number, so that every replica reads it again.
-- name: runtime_token_seal
UPDATE runtime_tokens SET secret_sha256 = :secret_sha256
 WHERE account_id = :account_id AND token_id = :token_id AND change = :change::bigint

-- name: runtime_tokens_used
SELECT runtime_tokens_used(string_to_array(:token_ids, ' '))

-- name: runtime_tokens_sweep
SELECT runtime_tokens_sweep(:limit::integer)

-- What a runtime (r) shows of its tokens: those that end soon, and those that were replaced and are used all the same.
-- A use is noted with a delay (runtime_tokens.last_used_interval), so what came just after the rotation does not count.
-- fragment: runtime_token_errors
SELECT CASE WHEN t.expires_at > now() THEN 'WARNING' ELSE 'ERROR' END AS level, 'Runtime token' AS title,
       'the runtime token ' || t.token_id || CASE WHEN t.name <> '' THEN ' (' || t.name || ')' ELSE '' END ||
       CASE WHEN t.expires_at <= now() THEN ' expired at ' || to_char(t.expires_at, :{rfc3339})
            WHEN t.replaced_at IS NOT NULL
            THEN ' was replaced, is still in use, and ends at ' || to_char(t.expires_at, :{rfc3339})
            ELSE ' expires at ' || to_char(t.expires_at, :{rfc3339}) || '; rotate it' END AS message,
       'UNKNOWN' AS code, now() AS last_seen_at, t.token_id AS error_key
  FROM runtime_tokens t
 WHERE t.account_id = r.account_id AND t.runtime = r.runtime AND t.runtime_id = r.runtime_id AND t.revoked_at IS NULL
   AND t.expires_at > now() - interval '1 day' AND runtime_token_warns_at(t) <= now()
   AND CASE WHEN t.expires_at <= now() THEN t.replaced_at IS NULL
            ELSE t.replaced_at IS NULL OR t.last_used_at > t.replaced_at + interval '15 minutes' END
