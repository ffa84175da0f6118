-- The images are those of the resource's row, which this very report wrote; while they
-- stay the same nothing is looked at.
-- name: image_uses_put
SELECT image_uses_set(r)
  FROM resources r
 WHERE r.api_group = :api_group AND r.kind = :kind AND r.has_new_images AND :{report_row}
