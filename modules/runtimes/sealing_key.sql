-- No row: the runtime has :count_max keys already. Saved again it is the same row, encrypted
-- anew.
-- name: sealing_key_put
WITH k AS (
    INSERT INTO sealing_keys AS t (account_id, runtime, key_id, sealed)
    SELECT :account_id, r.runtime, :key_id, :sealed
      FROM runtimes r
     WHERE r.account_id = :account_id AND r.runtime = :runtime
       AND (SELECT count(*) FROM sealing_keys s
             WHERE s.account_id = :account_id AND s.runtime = :runtime AND s.key_id NOT IN (:key_id, repeat('0', 32))) < :count_max::integer
    ON CONFLICT (account_id, runtime, key_id) DO UPDATE SET sealed = excluded.sealed
    RETURNING t.key_id, t.xmax = 0 AS is_new)
SELECT json_build_object('id', k.key_id),
       CASE WHEN k.is_new THEN audit_append(:account_id, 'create', 'sealing_keys', k.key_id,
                                            jsonb_build_array(jsonb_build_object('op', 'add', 'path', '/runtime',
                                                                                 'value', :runtime)), 'done') END
  FROM k

-- name: sealing_key_get
SELECT json_build_object('sealed', encode(sealed, 'hex'))
  FROM sealing_keys
 WHERE account_id = :account_id AND runtime = :runtime AND key_id = :key_id

-- name: sealing_key_seal_again
UPDATE sealing_keys
   SET sealed = :sealed
 WHERE account_id = :account_id AND runtime = :runtime AND key_id = :key_id

-- The key that a runtime encrypts what it stores with: made once.
-- name: store_key_make
INSERT INTO sealing_keys (account_id, runtime, key_id, sealed)
SELECT r.account_id, r.runtime, :key_id, :sealed
  FROM runtimes r
 WHERE r.account_id = :account_id AND r.runtime = :runtime
ON CONFLICT DO NOTHING
