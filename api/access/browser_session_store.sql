-- One valid link a user: a new one ends those before it.
-- name: sign_in_link_create
WITH who AS (
    SELECT account_id, user_id FROM users WHERE account_id = :account_id AND name = :user_name AND NOT is_disabled),
ended AS (
    UPDATE sign_in_links l SET expires_at = now()
      FROM who
     WHERE l.account_id = :account_id AND l.user_id = who.user_id AND l.used_at IS NULL AND l.expires_at > now())
INSERT INTO sign_in_links (account_id, link_id, user_id, secret_sha256, expires_at)
SELECT account_id, :link_id, user_id, :secret_sha256, now() + :life_ms::bigint * interval '1 millisecond'
  FROM who
RETURNING json_build_object('id', link_id, 'expiresAt', to_char(expires_at, :{rfc3339}))

-- fragment: browser_session_node
json_build_object(
    'id', s.session_id, 'method', s.method, 'remote', s.remote, 'userAgent', s.user_agent,
    'createdAt', to_char(s.created_at, :{rfc3339}), 'lastUsedAt', to_char(s.last_used_at, :{rfc3339}),
    'expiresAt', to_char(s.expires_at, :{rfc3339}),
    'idleSeconds', extract(epoch FROM s.idle_max)::bigint)

-- fragment: signed_in_node
json_build_object(
    'user', json_build_object('id', u.user_id, 'name', u.name, 'email', u.email, 'isAdmin', u.is_admin),
    'account', json_build_object('id', a.account_id, 'name', a.name))

-- Opens a session with a link, which is used up by it, with an API key, or for an identity that its
-- provider vouches for. When the user has too
-- many, the ones that were used least recently end. No row: the link was used or has ended, or the
-- user may not sign in.
-- name: browser_session_open
WITH link AS (
    UPDATE sign_in_links SET used_at = now()
     WHERE account_id = :account_id AND link_id = :credential_id AND :method = 'link' AND used_at IS NULL
       AND expires_at > now()
    RETURNING user_id),
who AS (
    SELECT user_id, NULL AS key_id FROM link
    UNION ALL
    SELECT k.user_id, k.token_id
      FROM api_keys k
     WHERE :method = 'api_key' AND k.account_id = :account_id AND k.token_id = :credential_id AND k.revoked_at IS NULL
       AND (k.expires_at IS NULL OR k.expires_at > now())
    UNION ALL
    SELECT e.user_id, NULL
      FROM external_identities e
     WHERE :method = 'oidc' AND e.account_id = :account_id AND e.identity_id = :credential_id),
ended AS (
    UPDATE browser_sessions s SET revoked_at = now()
     WHERE s.account_id = :account_id
       AND s.session_id IN (SELECT b.session_id
                              FROM browser_sessions b
                              JOIN who ON who.user_id = b.user_id
                             WHERE b.account_id = :account_id AND b.revoked_at IS NULL
                             ORDER BY b.last_used_at DESC, b.session_id
                            OFFSET :others_max::integer)
    RETURNING 1),
s AS (
    INSERT INTO browser_sessions (account_id, session_id, user_id, secret_sha256, method, key_id, remote, user_agent,
                                  idle_max, expires_at)
    SELECT u.account_id, :session_id, u.user_id, :secret_sha256, :method, who.key_id, left(:remote, 100),
           left(:user_agent, 300), :idle_ms::bigint * interval '1 millisecond',
           now() + :life_ms::bigint * interval '1 millisecond'
      FROM who
      JOIN users u ON u.account_id = :account_id AND u.user_id = who.user_id AND NOT u.is_disabled
    RETURNING *)
SELECT :{signed_in_node}::jsonb || jsonb_build_object('session', :{browser_session_node},
                                                      'displaced', (SELECT count(*) FROM ended))
  FROM s
  JOIN users u ON u.account_id = s.account_id AND u.user_id = s.user_id
  JOIN accounts a ON a.account_id = s.account_id

-- session_id may be of none: an API key was used, and session is null.
-- name: browser_session_get
SELECT :{signed_in_node}::jsonb ||
       jsonb_build_object('session', CASE WHEN s.session_id IS NOT NULL THEN :{browser_session_node} END)
  FROM users u
  JOIN accounts a ON a.account_id = u.account_id
  LEFT JOIN browser_sessions s
         ON s.account_id = u.account_id AND s.user_id = u.user_id AND s.session_id = :session_id
 WHERE u.account_id = :account_id AND u.user_id = :user_id

-- name: browser_session_list
SELECT coalesce(json_agg(:{browser_session_node} ORDER BY s.last_used_at DESC, s.session_id), '[]'::json)
  FROM browser_sessions s
 WHERE s.account_id = :account_id AND s.user_id = :user_id AND s.revoked_at IS NULL AND s.expires_at > now()
   AND s.last_used_at + s.idle_max > now()

-- session_id empty: all of the user.
-- name: browser_session_end
UPDATE browser_sessions
   SET revoked_at = now()
 WHERE account_id = :account_id AND user_id = :user_id AND (:session_id = '' OR session_id = :session_id)
   AND revoked_at IS NULL

-- name: browser_session_end_by_name
UPDATE browser_sessions
   SET revoked_at = now()
 WHERE account_id = :account_id AND revoked_at IS NULL
   AND user_id = (SELECT u.user_id FROM users u WHERE u.account_id = :account_id AND u.name = :user_name)

-- name: browser_session_sweep
SELECT browser_sessions_sweep(:limit::integer)
