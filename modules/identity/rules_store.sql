-- fragment: rule_node
json_build_object('id', r.rule_id, 'accountId', r.account_id, 'entityType', r.entity_type, 'effect', r.effect,
                  'teams', r.teams, 'tags', r.tags, 'actions', r.actions, 'attributes', r.attributes)

-- name: rules_list
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{rule_node} AS node
          FROM access_rules r
         WHERE r.account_id = :account_id AND r.entity_type = :entity_type
         ORDER BY r.rule_id) AS rules

-- name: rule_get
SELECT :{rule_node} FROM access_rules r WHERE r.account_id = :account_id AND r.rule_id = :rule_id

-- fragment: rule_unknown_team
SELECT w.team_id
  FROM jsonb_array_elements_text(:teams::jsonb) AS w (team_id)
 WHERE NOT EXISTS (SELECT FROM teams t WHERE t.account_id = :account_id AND t.team_id = w.team_id)

-- What keeps the rule from being stored: a team that there is not, and how many rules and
-- combinations the account has besides it.
-- name: rule_room
SELECT (:{rule_unknown_team} LIMIT 1), count(r.rule_id), coalesce(sum(r.combinations), 0)
  FROM (SELECT) AS one
  LEFT JOIN access_rules r ON r.account_id = :account_id AND r.rule_id <> :rule_id

-- fragment: rule_fits
NOT EXISTS (:{rule_unknown_team})
   AND (SELECT count(*) < :rules_max::bigint
               AND coalesce(sum(o.combinations), 0) + :combinations::bigint <= :values_max::bigint
          FROM access_rules o WHERE o.account_id = :account_id AND o.rule_id <> :rule_id)

-- name: rule_create
WITH r AS (
    INSERT INTO access_rules (account_id, rule_id, entity_type, effect, teams, tags, actions, attributes, combinations)
    SELECT :account_id, :rule_id, :entity_type, :effect,
           ARRAY(SELECT DISTINCT jsonb_array_elements_text(:teams::jsonb) ORDER BY 1),
           ARRAY(SELECT jsonb_array_elements_text(:tags::jsonb)),
           ARRAY(SELECT DISTINCT jsonb_array_elements_text(:actions::jsonb) ORDER BY 1),
           :attributes::jsonb, :combinations::integer
     WHERE :{rule_fits}
    RETURNING *)
SELECT :{rule_node} FROM r

-- name: rule_update
WITH r AS (
    UPDATE access_rules
       SET entity_type = :entity_type, effect = :effect,
           teams = ARRAY(SELECT DISTINCT jsonb_array_elements_text(:teams::jsonb) ORDER BY 1),
           tags = ARRAY(SELECT jsonb_array_elements_text(:tags::jsonb)),
           actions = ARRAY(SELECT DISTINCT jsonb_array_elements_text(:actions::jsonb) ORDER BY 1),
           attributes = :attributes::jsonb, combinations = :combinations::integer
     WHERE account_id = :account_id AND rule_id = :rule_id AND :{rule_fits}
    RETURNING *)
SELECT :{rule_node} FROM r

-- name: rule_remove
WITH r AS (
    DELETE FROM access_rules WHERE account_id = :account_id AND rule_id = :rule_id
    RETURNING *)
SELECT :{rule_node} FROM r

-- name: default_access_get
SELECT to_json(coalesce((SELECT default_access FROM access_settings WHERE account_id = :account_id), 'ALLOW'))

-- name: default_access_set
INSERT INTO access_settings AS s (account_id, default_access) VALUES (:account_id, :access)
ON CONFLICT (account_id) DO UPDATE
   SET default_access = excluded.default_access, change = s.change + 1
RETURNING to_json(s.default_access)

-- name: explained_user
SELECT to_json(CASE WHEN u.is_admin THEN 'ADMIN' WHEN u.is_read_only THEN 'READ_ONLY' ELSE 'MEMBER' END)
  FROM users u WHERE u.account_id = :account_id AND u.user_id = :user_id AND NOT u.is_disabled
