-- One sign-in of an account at a time: of two first ones of the same person each would make a user.
-- name: external_identity_lock
SELECT account_id FROM accounts WHERE account_id = :account_id FOR UPDATE

-- An address that several users have finds none of them.
-- name: external_identity_link
INSERT INTO external_identities (account_id, identity_id, user_id, provider, issuer, subject)
SELECT u.account_id, :identity_id, u.user_id, :provider, :issuer, :subject
  FROM users u
 WHERE u.account_id = :account_id AND :email <> '' AND lower(u.email) = lower(:email) AND NOT u.is_service
   AND NOT EXISTS (SELECT FROM users o
                    WHERE o.account_id = :account_id AND lower(o.email) = lower(:email) AND o.user_id <> u.user_id)
ON CONFLICT DO NOTHING

-- A name that is taken gets a part of the new user's id.
-- name: external_identity_create
WITH u AS (
    INSERT INTO users (account_id, user_id, name, email, is_read_only)
    SELECT :account_id, :user_id,
           CASE WHEN EXISTS (SELECT FROM users o WHERE o.account_id = :account_id AND o.name = left(:name, 180))
                THEN left(:name, 180) || '-' || left(:user_id, 8) ELSE left(:name, 180) END,
           left(:email, 320), :is_read_only::boolean
     WHERE :creates::boolean
       AND NOT EXISTS (SELECT FROM external_identities e
                        WHERE e.account_id = :account_id AND e.identity_id = :identity_id)
    RETURNING account_id, user_id)
INSERT INTO external_identities (account_id, identity_id, user_id, provider, issuer, subject)
SELECT account_id, :identity_id, user_id, :provider, :issuer, :subject FROM u

-- The last admin stays one.
-- name: external_identity_set_role
UPDATE users u
   SET is_admin = :is_admin::boolean, is_read_only = u.is_read_only AND NOT :is_admin::boolean
  FROM external_identities e
 WHERE e.account_id = :account_id AND e.identity_id = :identity_id AND u.account_id = e.account_id
   AND u.user_id = e.user_id AND :manages_admins::boolean AND u.is_admin <> :is_admin::boolean
   AND (:is_admin::boolean
        OR EXISTS (SELECT FROM users a
                    WHERE a.account_id = :account_id AND a.user_id <> u.user_id AND a.is_admin AND NOT a.is_disabled))

-- name: external_identity_leave_teams
DELETE FROM team_members m
 USING external_identities e, teams t
 WHERE e.account_id = :account_id AND e.identity_id = :identity_id AND m.account_id = e.account_id
   AND m.user_id = e.user_id AND t.account_id = m.account_id AND t.team_id = m.team_id
   AND :managed_teams::jsonb ? t.name AND NOT :teams::jsonb ? t.name

-- Teams that do not exist are not made.
-- name: external_identity_join_teams
INSERT INTO team_members (account_id, team_id, user_id)
SELECT t.account_id, t.team_id, e.user_id
  FROM external_identities e
  JOIN teams t ON t.account_id = e.account_id AND :teams::jsonb ? t.name
 WHERE e.account_id = :account_id AND e.identity_id = :identity_id
ON CONFLICT DO NOTHING
