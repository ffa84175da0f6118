-- name: runtime_error_put
INSERT INTO runtime_errors AS t (account_id, runtime, error_key, origin, level, message)
SELECT account_id, runtime, :error_key, :origin, :level, :message
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
   FOR KEY SHARE
ON CONFLICT (account_id, runtime, error_key) DO UPDATE SET last_received_at = now()

-- name: runtime_error_trim
DELETE FROM runtime_errors
 WHERE account_id = :account_id AND runtime = :runtime
   AND error_key IN (SELECT error_key
                       FROM runtime_errors
                      WHERE account_id = :account_id AND runtime = :runtime
                      ORDER BY last_received_at DESC, error_key
                     OFFSET 200)

-- What a runtime (r) shows as its errors: what its agent finds wrong now, then what was reported within the last day,
-- newest first, and what its tokens and its storage quota (quota) warn of.
-- fragment: runtime_errors_node
(SELECT coalesce(json_agg(json_build_object(
            '__typename', 'HealthError', 'level', e.level, 'title', e.title, 'message', e.message,
            'suggestion', e.suggestion, 'object', NULL, 'code', e.code,
            'lastSeen', to_char(e.last_seen_at, :{rfc3339}))
            ORDER BY e.place, e.last_seen_at DESC, e.error_key), '[]'::json)
   FROM ((SELECT 2 AS place, level,
                 CASE origin WHEN 'INSTALLATION' THEN 'Runtime installation error' ELSE 'Event source error' END AS title,
                 message, NULL AS suggestion,
                 CASE origin WHEN 'INSTALLATION' THEN 'RUNTIME_INSTALLATION_ERROR' ELSE 'UNKNOWN' END AS code,
                 last_received_at AS last_seen_at, encode(error_key, 'hex') AS error_key
            FROM runtime_errors
           WHERE account_id = r.account_id AND runtime = r.runtime AND last_received_at > now() - interval '1 day'
           ORDER BY last_received_at DESC, runtime_errors.error_key
           LIMIT 20)
         UNION ALL
         (SELECT 2, t.level, t.title, t.message, NULL, t.code, t.last_seen_at, t.error_key
            FROM (:{runtime_token_errors}) t
           LIMIT 20)
         UNION ALL
         (SELECT CASE quota.level WHEN 'ERROR' THEN 0 ELSE 1 END, quota.level, 'Storage quota', quota.message,
                 quota.suggestion, 'UNKNOWN', now(), 'storage'
           WHERE quota.level IS NOT NULL)
         UNION ALL
         (SELECT CASE f.value->>'level' WHEN 'ERROR' THEN 0 ELSE 1 END, f.value->>'level',
                 CASE f.value->>'level' WHEN 'ERROR' THEN 'The agent cannot read its cluster'
                      ELSE 'The agent cannot read some of its cluster' END,
                 (f.value->>'message') || ' (' || (f.value->>'code') || ')', f.value->>'suggestion', 'UNKNOWN',
                 c.received_at, lpad(f.ordinality::text, 4, '0')
            FROM clusters c
           CROSS JOIN jsonb_array_elements(c.findings) WITH ORDINALITY f
           WHERE c.account_id = r.account_id AND c.runtime = r.runtime AND NOT c.is_deleted AND r.online
             AND c.epoch = r.session_epoch)) e)
