-- name: cloud_event_runtime
SELECT 1 FROM runtimes WHERE account_id = $1 AND runtime = $2 FOR KEY SHARE

-- name: cloud_event_put
INSERT INTO cloud_events (account_id, runtime, occurred_at, event_key, event_id, source, type, subject, stated_at,
                          encoding, plain_bytes, content)
SELECT account_id, runtime,
       CASE WHEN $9::timestamptz BETWEEN now() - interval '7 days' AND now() + interval '1 day' THEN $9::timestamptz
            ELSE date_trunc('week', now()) END,
       $4, $5, $6, $7, $8, $9::timestamptz, $10::smallint, $11::integer, $3
  FROM runtimes
 WHERE account_id = $1 AND runtime = $2
ON CONFLICT (account_id, runtime, occurred_at, event_key) DO NOTHING

-- name: cloud_event_partitions
SELECT cloud_events_partitions($1::integer)
