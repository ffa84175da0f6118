-- name: annotation_put
INSERT INTO annotations AS t (account_id, entity_type, entity_id, type, key, classic_id, value, runtime)
VALUES (:account_id, :entity_type, :entity_id, :type, :key, :classic_id, :value::jsonb, :runtime)
ON CONFLICT (account_id, entity_type, entity_id, type, key) DO UPDATE
   SET classic_id = excluded.classic_id, value = excluded.value, updated_at = now()
 WHERE :runtime = '' OR t.runtime = :runtime
