-- name: cloud_event_runtime
SELECT 1 FROM runtimes WHERE account_id = :account_id AND runtime = :runtime FOR KEY SHARE

-- name: cloud_event_put
INSERT INTO cloud_events (account_id, runtime, occurred_at, event_key, event_id, source, type, subject, stated_at,
                          encoding, plain_bytes, content)
SELECT account_id, runtime,
       CASE WHEN :occurred_at::timestamptz BETWEEN now() - interval '7 days' AND now() + interval '1 day'
            THEN :occurred_at::timestamptz
            ELSE date_trunc('week', now()) END,
       :event_key, :event_id, :source, :type, :subject, :occurred_at::timestamptz, :encoding::smallint,
       :plain_bytes::integer, :content
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime
ON CONFLICT (account_id, runtime, occurred_at, event_key) DO NOTHING

-- name: cloud_event_partitions
SELECT cloud_events_partitions(:keep_days::integer)
