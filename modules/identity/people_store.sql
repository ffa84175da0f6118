-- fragment: person_node
json_build_object(
    'id', u.user_id, 'name', u.name, 'email', u.email, 'isService', u.is_service, 'isDisabled', u.is_disabled,
    'role', CASE WHEN u.is_admin THEN 'ADMIN' WHEN u.is_read_only THEN 'READ_ONLY' ELSE 'MEMBER' END,
    'createdAt', to_char(u.created_at, :{rfc3339}),
    'teams', (SELECT coalesce(json_agg(t.name ORDER BY t.name), '[]'::json)
                FROM team_members m
                JOIN teams t ON t.account_id = m.account_id AND t.team_id = m.team_id
               WHERE m.account_id = u.account_id AND m.user_id = u.user_id),
    'status', CASE WHEN u.is_disabled THEN 'disabled' ELSE 'active' END,
    'roles', CASE WHEN u.is_admin THEN '["User", "Admin"]'::json ELSE '["User"]'::json END,
    'accounts', (SELECT json_agg(json_build_object('id', a.account_id, 'name', a.name))
                   FROM accounts a
                  WHERE a.account_id = u.account_id),
    'memberOf', (SELECT coalesce(json_agg(json_build_object('id', t.team_id, 'name', t.name) ORDER BY t.name),
                                 '[]'::json)
                   FROM team_members m
                   JOIN teams t ON t.account_id = m.account_id AND t.team_id = m.team_id
                  WHERE m.account_id = u.account_id AND m.user_id = u.user_id))

-- service: only those that are service users, or all; user_id empty: all.
-- name: people_find
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{person_node} AS node
          FROM users u
         WHERE u.account_id = :account_id AND (u.is_service OR NOT :is_service::boolean)
           AND (:user_id = '' OR u.user_id = :user_id)
         ORDER BY u.name
         LIMIT :limit::integer OFFSET :offset::bigint) AS people

-- Of the last admin nothing is deleted.
-- name: person_delete
WITH locked AS (
    SELECT account_id FROM accounts WHERE account_id = :account_id FOR UPDATE)
DELETE FROM users u
 USING locked
 WHERE u.account_id = locked.account_id AND (u.user_id = :user_id OR (:name <> '' AND u.name = :name))
   AND u.user_id <> :caller AND (u.is_service OR NOT :is_service::boolean)
   AND (NOT u.is_admin OR u.is_disabled
        OR EXISTS (SELECT FROM users a
                    WHERE a.account_id = :account_id AND a.user_id <> u.user_id AND a.is_admin AND NOT a.is_disabled))

-- name NULL: as it is. The account is locked, as in person_update.
-- name: service_user_change
WITH locked AS (
    SELECT account_id FROM accounts WHERE account_id = :account_id FOR UPDATE)
UPDATE users u
   SET name = coalesce(:name, u.name), is_admin = :is_admin::boolean
  FROM locked
 WHERE u.account_id = locked.account_id AND u.user_id = :user_id AND u.is_service
   AND (:is_admin::boolean OR NOT u.is_admin OR u.is_disabled
        OR EXISTS (SELECT FROM users a
                    WHERE a.account_id = :account_id AND a.user_id <> u.user_id AND a.is_admin AND NOT a.is_disabled))

-- team_ids NULL: as they are. Nothing where the change before was refused, so that is_admin
-- differs.
-- name: person_leave_teams
DELETE FROM team_members m
 WHERE m.account_id = :account_id AND m.user_id = :user_id AND :team_ids::jsonb IS NOT NULL
   AND NOT :team_ids::jsonb ? m.team_id
   AND EXISTS (SELECT FROM users u
                WHERE u.account_id = m.account_id AND u.user_id = m.user_id AND u.is_service
                  AND u.is_admin = :is_admin::boolean)

-- name: person_join_teams
INSERT INTO team_members (account_id, team_id, user_id)
SELECT t.account_id, t.team_id, u.user_id
  FROM teams t
  JOIN users u ON u.account_id = t.account_id AND u.user_id = :user_id AND u.is_service
              AND u.is_admin = :is_admin::boolean
 WHERE t.account_id = :account_id AND :team_ids::jsonb ? t.team_id
ON CONFLICT DO NOTHING

-- name: service_user_get
SELECT :{person_node}
  FROM users u
 WHERE u.account_id = :account_id AND u.user_id = :user_id AND u.is_service AND u.is_admin = :is_admin::boolean

-- name: person_create
WITH u AS (
    INSERT INTO users (account_id, user_id, name, email, is_admin, is_read_only, is_service)
    VALUES (:account_id, :user_id, :name, :email, :role = 'ADMIN', :role = 'READ_ONLY', :is_service)
    RETURNING *)
SELECT :{person_node} FROM u

-- role and is_disabled may be NULL: as it is. The account is locked, so that of two admins who
-- demote each other one stays.
-- name: person_update
WITH locked AS (
    SELECT account_id FROM accounts WHERE account_id = :account_id FOR UPDATE),
wanted AS (
    SELECT o.account_id, o.user_id, coalesce(:role = 'ADMIN', o.is_admin) AS is_admin,
           coalesce(:role = 'READ_ONLY', o.is_read_only) AS is_read_only,
           coalesce(:is_disabled::boolean, o.is_disabled) AS is_disabled
      FROM locked
      JOIN users o ON o.account_id = locked.account_id
     WHERE o.user_id = :user_id),
u AS (
    UPDATE users c SET is_admin = w.is_admin, is_read_only = w.is_read_only, is_disabled = w.is_disabled
      FROM wanted w
     WHERE c.account_id = w.account_id AND c.user_id = w.user_id
       AND (w.is_admin AND NOT w.is_disabled OR NOT c.is_admin OR c.is_disabled
            OR EXISTS (SELECT FROM users a
                        WHERE a.account_id = :account_id AND a.user_id <> c.user_id AND a.is_admin
                          AND NOT a.is_disabled))
    RETURNING c.*)
SELECT :{person_node} FROM u

-- fragment: api_key_node
json_build_object(
    'id', k.token_id, 'name', k.name, 'userId', u.user_id, 'userName', u.name, 'scopes', k.scopes,
    'createdAt', to_char(k.created_at, :{rfc3339}), 'expiresAt', to_char(k.expires_at, :{rfc3339}),
    'lastUsedAt', to_char(k.last_used_at, :{rfc3339}), 'revokedAt', to_char(k.revoked_at, :{rfc3339}),
    'tokenPrefix', k.token_id, 'subject', json_build_object('type', 'user', 'ref', u.user_id))

-- Null where it is another user's, or has ended.
-- name: api_key_get
SELECT :{api_key_node}
  FROM api_keys k
  JOIN users u ON u.account_id = k.account_id AND u.user_id = k.user_id
 WHERE k.account_id = :account_id AND k.token_id = :token_id AND k.user_id = :user_id AND k.revoked_at IS NULL

-- user_id empty: of all users.
-- name: api_keys_list
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{api_key_node} AS node
          FROM api_keys k
          JOIN users u ON u.account_id = k.account_id AND u.user_id = k.user_id
         WHERE k.account_id = :account_id AND (:user_id = '' OR k.user_id = :user_id)
         ORDER BY k.created_at DESC, k.token_id LIMIT :limit::integer) AS keys

-- name: api_key_make
WITH k AS (
    INSERT INTO api_keys (account_id, token_id, user_id, name, secret_sha256, scopes, expires_at)
    SELECT o.account_id, :token_id, o.user_id, :name, :secret_sha256, :scopes::jsonb,
           now() + :life_s::bigint * interval '1 second'
      FROM users o
     WHERE o.account_id = :account_id AND o.user_id = :user_id AND NOT o.is_disabled
    RETURNING *)
SELECT :{api_key_node}
  FROM k
  JOIN users u ON u.account_id = k.account_id AND u.user_id = k.user_id

-- user_id empty: of any user.
-- name: api_key_end
UPDATE api_keys
   SET revoked_at = now()
 WHERE account_id = :account_id AND token_id = :token_id AND (:user_id = '' OR user_id = :user_id)
   AND revoked_at IS NULL

-- fragment: team_node
json_build_object(
    'id', t.team_id, 'name', t.name, 'account', t.account_id, 'type', 'default', 'tags', '[]'::json,
    'users', (SELECT coalesce(json_agg(json_build_object('id', u.user_id, 'name', u.name, 'email', u.email)
                                       ORDER BY u.name), '[]'::json)
                FROM team_members m
                JOIN users u ON u.account_id = m.account_id AND u.user_id = m.user_id
               WHERE m.account_id = t.account_id AND m.team_id = t.team_id),
    'members', (SELECT coalesce(json_agg(u.name ORDER BY u.name), '[]'::json)
                  FROM team_members m
                  JOIN users u ON u.account_id = m.account_id AND u.user_id = m.user_id
                 WHERE m.account_id = t.account_id AND m.team_id = t.team_id))

-- name: teams_list
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{team_node} AS node FROM teams t WHERE t.account_id = :account_id
         ORDER BY t.name LIMIT :limit::integer) AS found

-- name: team_create
WITH t AS (
    INSERT INTO teams (account_id, team_id, name) VALUES (:account_id, :team_id, :name) RETURNING *)
SELECT :{team_node} FROM t

-- name: team_rename
UPDATE teams t SET name = :name WHERE t.account_id = :account_id AND t.team_id = :team_id

-- name: team_fill
INSERT INTO team_members (account_id, team_id, user_id)
SELECT u.account_id, :team_id, u.user_id
  FROM users u
 WHERE u.account_id = :account_id AND :user_ids::jsonb ? u.user_id
ON CONFLICT DO NOTHING

-- name: team_delete
DELETE FROM teams WHERE account_id = :account_id AND team_id = :team_id

-- name: team_add
INSERT INTO team_members (account_id, team_id, user_id)
SELECT t.account_id, t.team_id, u.user_id
  FROM teams t
  JOIN users u ON u.account_id = t.account_id AND u.user_id = :user_id
 WHERE t.account_id = :account_id AND t.team_id = :team_id
ON CONFLICT DO NOTHING

-- name: team_remove
DELETE FROM team_members WHERE account_id = :account_id AND team_id = :team_id AND user_id = :user_id

-- name: team_get
SELECT :{team_node} FROM teams t WHERE t.account_id = :account_id AND t.team_id = :team_id
