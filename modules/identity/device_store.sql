-- Definer's functions: what waits belongs to no account before a person has decided.
-- name: device_authorization_create
SELECT device_authorization_create(:device_id, :secret_sha256, :user_code_sha256, :client_id, left(:remote, 100),
                                   left(:user_agent, 300), :life_s::bigint, :interval_s::integer, :all_max::bigint,
                                   :address_max::bigint)

-- name: device_authorization_get
SELECT json_build_object('clientId', d.client_id, 'remote', d.remote, 'userAgent', d.user_agent,
                         'createdAt', to_char(d.created_at, :{rfc3339}), 'expiresAt', to_char(d.expires_at, :{rfc3339}))
  FROM device_authorization_find(:user_code_sha256) AS d

-- name: device_authorization_decide
SELECT device_authorization_decide(:user_code_sha256, :account_id, :user_id, :is_allowed::boolean)

-- name: device_authorization_poll
SELECT json_build_object('state', p.state, 'accountId', p.account_id, 'userId', p.user_id, 'userName', p.user_name)
  FROM device_authorization_poll(:device_id, :secret_sha256) AS p

-- When the user has too many such keys, those that were used least recently end. Keys that ended a
-- month ago make room: nothing else deletes them.
-- name: device_key_create
WITH taken AS (
    SELECT user_id, remote FROM device_authorization_take(:device_id)),
gone AS (
    DELETE FROM api_keys k
     WHERE k.account_id = :account_id
       AND k.token_id IN (SELECT o.token_id
                            FROM api_keys o
                            JOIN taken ON taken.user_id = o.user_id
                           WHERE o.account_id = :account_id AND o.name LIKE 'device %'
                             AND least(o.expires_at, o.revoked_at) < now() - interval '30 days'
                           ORDER BY o.token_id LIMIT 100)),
ended AS (
    UPDATE api_keys k SET revoked_at = now()
     WHERE k.account_id = :account_id
       AND k.token_id IN (SELECT o.token_id
                            FROM api_keys o
                            JOIN taken ON taken.user_id = o.user_id
                           WHERE o.account_id = :account_id AND o.name LIKE 'device %' AND o.revoked_at IS NULL
                             AND o.expires_at > now()
                           ORDER BY coalesce(o.last_used_at, o.created_at) DESC, o.token_id
                          OFFSET :others_max::integer))
INSERT INTO api_keys (account_id, token_id, user_id, name, secret_sha256, scopes, expires_at)
SELECT u.account_id, :token_id, u.user_id, 'device ' || left(:token_id, 6) || ' ' || taken.remote, :secret_sha256, '[]'::jsonb,
       now() + :life_s::bigint * interval '1 second'
  FROM taken
  JOIN users u ON u.account_id = :account_id AND u.user_id = taken.user_id AND NOT u.is_disabled
RETURNING json_build_object('id', token_id, 'expiresAt', to_char(expires_at, :{rfc3339}))
