-- $10 and $11: API group and kind. The images are those of the resource's row, which this very report wrote; while they
-- stay the same nothing is written.
-- name: image_uses_put
WITH r AS (
    SELECT r.uid, r.observed_at, r.images
      FROM resources r
     WHERE r.api_group = $10 AND r.kind = $11 AND :{report_row}),
gone AS (
    DELETE FROM image_uses u
     USING r
     WHERE u.account_id = $1 AND u.runtime = $2 AND u.cluster = $3 AND u.api_group = $10 AND u.kind = $11
       AND u.namespace = $4 AND u.name = $5 AND NOT r.images ? u.image)
INSERT INTO image_uses AS t (account_id, runtime, cluster, api_group, kind, namespace, name, image, uid, since)
SELECT $1, $2, $3, $10, $11, $4, $5, i.image, r.uid, r.observed_at
  FROM r, jsonb_array_elements_text(r.images) i (image)
 WHERE NOT EXISTS (SELECT FROM image_uses u
                    WHERE u.account_id = $1 AND u.runtime = $2 AND u.cluster = $3 AND u.api_group = $10
                      AND u.kind = $11 AND u.namespace = $4 AND u.name = $5 AND u.image = i.image AND u.uid = r.uid)
ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name, image) DO UPDATE
   SET uid = excluded.uid, since = excluded.since
