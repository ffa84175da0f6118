-- What several stores write the same way.

-- The argument of to_char for times as clients get them; the session's time zone is UTC.
-- fragment: rfc3339
'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'

-- For what is left of the transaction: pg_batch_slow().
-- name: pg_slow
SELECT set_config('statement_timeout', :timeout, true)
