-- What a simulation begins with, of one moment: a team that there is not, whether the subject is
-- missing, the default, the rule that is changed, the rules of applications, and the users whom the
-- change is about, by teams and role. One group more than the limit shows that there are too many.
-- name: simulation_load
WITH old AS (
    SELECT r.* FROM access_rules r WHERE r.account_id = :account_id AND r.rule_id = :rule_id),
people AS (
    SELECT u.name, u.is_read_only, coalesce(t.teams, '{}') AS teams
      FROM users u
     CROSS JOIN LATERAL (SELECT array_agg(m.team_id ORDER BY m.team_id) AS teams
                           FROM team_members m
                          WHERE m.account_id = u.account_id AND m.user_id = u.user_id) AS t
     WHERE u.account_id = :account_id AND NOT u.is_disabled AND NOT u.is_admin
       AND (:user_id = '' OR u.user_id = :user_id) AND (:team_id = '' OR :team_id = ANY (t.teams))
       AND (:is_about_all::boolean OR t.teams && ARRAY(SELECT jsonb_array_elements_text(:teams::jsonb))
            OR t.teams && (SELECT o.teams FROM old o))),
groups AS (
    SELECT p.teams, p.is_read_only, count(*) AS users, (array_agg(p.name ORDER BY p.name))[1:20] AS names
      FROM people p GROUP BY p.teams, p.is_read_only ORDER BY p.teams, p.is_read_only LIMIT :groups_max::bigint + 1)
SELECT (:{rule_unknown_team} LIMIT 1),
       :user_id <> '' AND NOT EXISTS (SELECT FROM users u WHERE u.account_id = :account_id AND u.user_id = :user_id)
         OR :team_id <> '' AND NOT EXISTS (SELECT FROM teams t
                                             WHERE t.account_id = :account_id AND t.team_id = :team_id),
       coalesce((SELECT s.default_access FROM access_settings s WHERE s.account_id = :account_id), 'ALLOW'),
       (SELECT :{rule_node} FROM old r),
       (SELECT coalesce(json_agg(:{rule_node} ORDER BY r.rule_id), '[]'::json)
          FROM access_rules r
         WHERE r.account_id = :account_id AND r.entity_type = 'gitopsApplications'
           AND EXISTS (SELECT FROM groups g WHERE g.teams && r.teams)),
       (SELECT coalesce(json_agg(json_build_object(
                   'isReadOnly', g.is_read_only, 'userCount', g.users, 'users', g.names,
                   'isNew', g.teams && ARRAY(SELECT jsonb_array_elements_text(:teams::jsonb)),
                   'teams', (SELECT coalesce(json_agg(t.name ORDER BY t.name), '[]'::json)
                               FROM teams t WHERE t.account_id = :account_id AND t.team_id = ANY (g.teams)),
                   'rules', (SELECT coalesce(json_agg(r.rule_id ORDER BY r.rule_id), '[]'::json)
                               FROM access_rules r
                              WHERE r.account_id = :account_id AND r.entity_type = 'gitopsApplications'
                                AND r.teams && g.teams),
                   'combinations', (SELECT coalesce(sum(r.combinations), 0)
                                      FROM access_rules r
                                     WHERE r.account_id = :account_id AND r.entity_type = 'gitopsApplications'
                                       AND r.teams && g.teams)) ORDER BY g.teams, g.is_read_only), '[]'::json)
          FROM groups g)

-- The next applications in the order of their keys.
-- name: simulation_applications
SELECT coalesce(json_agg(json_build_object('runtime', a.runtime, 'namespace', a.namespace, 'name', a.name,
                                           'object', :{access_object})
                         ORDER BY a.runtime, a.namespace, a.name), '[]'::json)
  FROM (SELECT *
          FROM applications o
         WHERE o.account_id = :account_id AND NOT o.is_deleted
           AND (o.runtime, o.namespace, o.name) > (:runtime, :namespace, :name)
         ORDER BY o.runtime, o.namespace, o.name
         LIMIT :page::bigint) AS a
