-- name: token_lookup
SELECT kind, account_id, account_name, user_id, user_name, email, role, runtime, runtime_id,
       encode(secret_sha256, 'hex'), is_valid, note_use, :token_id, method, scopes,
       CASE WHEN kind = 'user' AND role <> 'admin' THEN access_rule_set(account_id, user_id) END
  FROM credential_lookup(:token_id)

-- A definer's function for each: row-level security shows nobody the keys of several accounts.
-- name: tokens_valid
SELECT wanted.id, found.role, found.scopes,
       CASE WHEN found.kind = 'user' AND found.role <> 'admin'
            THEN access_rule_set(found.account_id, found.user_id) END
  FROM unnest(string_to_array(:token_ids, ' ')) AS wanted (id)
 CROSS JOIN LATERAL credential_lookup(wanted.id) AS found
 WHERE found.is_valid

-- Which of the tables the token is in does not matter: ids are random.
-- name: token_used
WITH key AS (
    UPDATE api_keys SET last_used_at = now()
     WHERE account_id = :account_id AND token_id = :token_id
       AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')),
session AS (
    UPDATE browser_sessions SET last_used_at = now()
     WHERE account_id = :account_id AND session_id = :token_id AND last_used_at < now() - interval '1 minute')
UPDATE runtime_tokens SET last_used_at = now()
 WHERE account_id = :account_id AND token_id = :token_id
   AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')

-- name: account_create
INSERT INTO accounts (account_id, name) VALUES (:account_id, :name)
RETURNING json_build_object('id', account_id, 'name', name)

-- name: account_find
SELECT json_build_object('id', account_id, 'name', name) FROM account_by_name(:name)

-- name: account_page
SELECT json_agg(json_build_object('id', account_id, 'name', name)) FROM accounts_after(:after, :limit::integer)

-- name: account_summary
SELECT json_build_object(
    'users', (SELECT count(*) FROM users u WHERE u.account_id = :account_id),
    'runtimes', (SELECT count(*) FROM runtimes r WHERE r.account_id = :account_id),
    'applications', (SELECT count(*) FROM applications a WHERE a.account_id = :account_id AND NOT a.is_deleted),
    'releases', (SELECT count(*) FROM deployments d WHERE d.account_id = :account_id),
    'newestReport', (SELECT to_char(max(greatest(p.tunnel_received_at, p.http_received_at)), :{rfc3339})
                       FROM report_positions p WHERE p.account_id = :account_id))

-- name: user_create
INSERT INTO users (account_id, user_id, name, email, is_admin) VALUES (:account_id, :user_id, :name, :email,
       :is_admin)
RETURNING json_build_object('id', user_id, 'name', name, 'email', email)

-- name: key_create
INSERT INTO api_keys (account_id, token_id, user_id, name, secret_sha256, scopes, expires_at)
SELECT u.account_id, :token_id, u.user_id, :name, :secret_sha256, :scopes::jsonb,
       to_timestamp(:expires_at_ms::double precision / 1000)
  FROM users u
 WHERE u.account_id = :account_id AND u.name = :user_name AND NOT u.is_disabled
RETURNING json_build_object('id', token_id, 'name', name)

-- name: key_revoke
UPDATE api_keys SET revoked_at = now() WHERE account_id = :account_id AND token_id = :token_id AND revoked_at IS NULL

-- fragment: account_node
json_build_object(
    'id', a.account_id, 'name', a.name, 'features', json_build_object('gitopsPlanEnforcement', false),
    'ssoIntegrations', '[]'::json,
    'admins', (SELECT coalesce(json_agg(u.user_id ORDER BY u.user_id), '[]'::json) FROM users u
                WHERE u.account_id = a.account_id AND u.is_admin AND NOT u.is_disabled),
    'gitProvider', a.git_provider, 'gitApiUrl', a.git_api_url, 'sharedConfigRepo', a.shared_config_repo,
    'csdpValidated', EXISTS (SELECT FROM runtimes r WHERE r.account_id = a.account_id
                                AND r.first_session_at IS NOT NULL),
    'runtimeFeatures', '[]'::json, 'supportsManagedRuntime', false)

-- A runtime does not get to know the account's people.
-- fragment: account_of_runtime
(:{account_node}::jsonb || '{"admins": []}')

-- name: me_user
SELECT json_build_object(
    'id', m.user_id, 'name', m.name, 'email', m.email, 'isAdmin', m.is_admin,
    'status', CASE WHEN m.is_disabled THEN 'disabled' ELSE 'active' END, 'isDisabled', m.is_disabled,
    'registerDate', to_char(m.created_at, :{rfc3339}), 'runtimeName', NULL,
    'accounts', json_build_array(:{account_node}), 'activeAccount', :{account_node})
  FROM users m
  JOIN accounts a ON a.account_id = m.account_id
 WHERE m.account_id = :account_id AND m.user_id = :user_id AND NOT m.is_disabled

-- name: me_runtime
SELECT json_build_object(
    'id', m.runtime_id, 'name', m.runtime, 'email', '', 'isAdmin', false, 'status', 'active', 'isDisabled', false,
    'registerDate', to_char(m.created_at, :{rfc3339}), 'runtimeName', m.runtime,
    'accounts', jsonb_build_array(:{account_of_runtime}), 'activeAccount', :{account_of_runtime})
  FROM runtimes m
  JOIN accounts a ON a.account_id = m.account_id
 WHERE m.account_id = :account_id AND m.runtime = :runtime

-- name: account_keep
UPDATE accounts
   SET history_keep_days = nullif(:keep_days::integer, 0)
 WHERE account_id = :account_id
RETURNING json_build_object('id', account_id, 'name', name, 'historyKeepDays', history_keep_days)
