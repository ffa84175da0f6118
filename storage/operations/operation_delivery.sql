-- name: operation_claim
SELECT account_id, runtime, epoch, operation_id, attempt, ttl_ms, document
  FROM operations_claim(:replica, :resend_ms::bigint, :rows::integer)

-- name: operation_expire
SELECT operations_expire(:grace_ms::bigint, :run_ms::bigint, :rows::integer)

-- What the agent reports, over the session that it was sent over. States only go forward; a late
-- answer replaces UNKNOWN.
-- name: operation_note
UPDATE operations
   SET state = :state, code = nullif(:code, ''), message = nullif(:message, ''),
       accepted_at = coalesce(accepted_at, now()),
       started_at = CASE WHEN :state IN ('RUNNING', 'DONE') THEN coalesce(started_at, now()) ELSE started_at END,
       finished_at = CASE WHEN :state IN ('DONE', 'FAILED', 'UNKNOWN') THEN now() END
 WHERE account_id = :account_id AND operation_id = :operation_id AND runtime = :runtime AND epoch = :epoch::bigint
   AND array_position('{QUEUED,DELIVERED,ACCEPTED,RUNNING,UNKNOWN,DONE,FAILED}'::text[], state)
       < CASE WHEN :state = 'FAILED' THEN 6
              ELSE array_position('{QUEUED,DELIVERED,ACCEPTED,RUNNING,UNKNOWN,DONE,FAILED}'::text[], :state) END
