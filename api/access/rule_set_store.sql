-- The rules for the teams that a user is in, with the name of that set; one statement, so that both
-- are of one moment.
-- name: rule_set_load
SELECT access_rule_set(:account_id, :user_id),
       coalesce((SELECT s.default_access FROM access_settings s WHERE s.account_id = :account_id), 'ALLOW'),
       (SELECT coalesce(json_agg(json_build_object('id', r.rule_id, 'entityType', r.entity_type, 'effect', r.effect,
                                                   'actions', r.actions, 'attributes', r.attributes)
                                 ORDER BY r.rule_id), '[]'::json)
          FROM access_rules r
         WHERE r.account_id = :account_id
           AND r.teams && ARRAY(SELECT m.team_id FROM team_members m
                                 WHERE m.account_id = :account_id AND m.user_id = :user_id))
