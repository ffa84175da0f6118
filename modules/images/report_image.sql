-- $10 and $11: API group and kind. The images are those of the resource's row, which this very report wrote; while they
-- stay the same nothing is looked at.
-- name: image_uses_put
SELECT image_uses_set(r)
  FROM resources r
 WHERE r.api_group = $10 AND r.kind = $11 AND r.has_new_images AND :{report_row}
