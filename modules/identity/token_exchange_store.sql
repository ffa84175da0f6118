-- Keys that ended a day ago make room: nothing else deletes them.
-- name: exchanged_key_create
WITH who AS (
    SELECT account_id, user_id FROM users
     WHERE account_id = :account_id AND name = :user_name AND is_service AND NOT is_disabled),
gone AS (
    DELETE FROM api_keys k
     WHERE k.account_id = :account_id
       AND k.token_id IN (SELECT o.token_id
                            FROM api_keys o
                            JOIN who ON who.user_id = o.user_id
                           WHERE o.account_id = :account_id AND o.name LIKE 'exchange-%'
                             AND o.expires_at < now() - interval '1 day'
                           ORDER BY o.token_id LIMIT 100))
INSERT INTO api_keys (account_id, token_id, user_id, name, secret_sha256, scopes, expires_at)
SELECT account_id, :token_id, user_id, 'exchange-' || :token_id, :secret_sha256, :scopes::jsonb,
       now() + :life_s::bigint * interval '1 second'
  FROM who
RETURNING json_build_object('id', token_id)
