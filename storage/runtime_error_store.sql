-- name: runtime_error_put
INSERT INTO runtime_errors AS t (account_id, runtime, error_key, origin, level, message)
SELECT account_id, runtime, $3, $4, $5, $6
  FROM runtimes
 WHERE account_id = $1 AND runtime = $2
   FOR KEY SHARE
ON CONFLICT (account_id, runtime, error_key) DO UPDATE SET last_received_at = now()

-- name: runtime_error_trim
DELETE FROM runtime_errors
 WHERE account_id = $1 AND runtime = $2
   AND error_key IN (SELECT error_key
                       FROM runtime_errors
                      WHERE account_id = $1 AND runtime = $2
                      ORDER BY last_received_at DESC, error_key
                     OFFSET 200)

-- What a runtime (r) shows as its errors: what was said within the last day, newest first.
-- fragment: runtime_errors_node
(SELECT coalesce(json_agg(json_build_object(
            '__typename', 'HealthError', 'level', e.level,
            'title', CASE e.origin WHEN 'INSTALLATION' THEN 'Runtime installation error' ELSE 'Event source error' END,
            'message', e.message, 'suggestion', NULL, 'object', NULL,
            'code', CASE e.origin WHEN 'INSTALLATION' THEN 'RUNTIME_INSTALLATION_ERROR' ELSE 'UNKNOWN' END,
            'lastSeen', to_char(e.last_received_at, :{rfc3339})) ORDER BY e.last_received_at DESC, e.error_key),
        '[]'::json)
   FROM (SELECT *
           FROM runtime_errors
          WHERE account_id = r.account_id AND runtime = r.runtime AND last_received_at > now() - interval '1 day'
          ORDER BY last_received_at DESC, error_key
          LIMIT 20) e)
