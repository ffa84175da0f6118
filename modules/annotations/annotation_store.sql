-- name: annotation_put
INSERT INTO annotations AS t (account_id, entity_type, entity_id, type, key, classic_id, value, runtime)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8)
ON CONFLICT (account_id, entity_type, entity_id, type, key) DO UPDATE
   SET classic_id = excluded.classic_id, value = excluded.value, updated_at = now()
 WHERE $8 = '' OR t.runtime = $8
