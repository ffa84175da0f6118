-- Entries of status.history for the deployment ledger (migrations/0011). $7: their ids; when the application's row says
-- that they are all there, that is the end of it.
-- name: deployment_add
SELECT deployments_add($1, $2, $3, $4, $5, $6::jsonb)
 WHERE :{runtime_is_there}
   AND NOT EXISTS (SELECT FROM applications a
                    WHERE a.account_id = $1 AND a.runtime = $2 AND a.namespace = $3 AND a.name = $4
                      AND a.ledger_uid = $5 AND a.ledger_ids @> $7::bigint[])

-- Every sync operation, whether it came to a deployment or failed; the newest state of each
-- stays. One that has ended will not change, so that it is not written again with each report of
-- its application. One of a time for which there is no month (years off, or long ago) is to be
-- seen in its application's row only. Argo CD's times are whole seconds: operations that begin in
-- the same second and ask for different things ($16) are filed one microsecond behind each other.
-- name: application_operation_upsert
INSERT INTO application_operations AS t (account_id, runtime, namespace, name, uid, started_at, finished_at, phase,
                                         message, revision, initiator, is_automated, epoch, sequence, observed_at,
                                         request, is_dry_run, is_partial)
SELECT $1, $2, $3, $4, $5, p.started_at, $7::timestamptz, $8, $9, $10, $11, $12::boolean, $13::bigint, $14::bigint,
       $15::timestamptz, sha256(convert_to($16, 'UTF8')), $17::boolean, $18::boolean
  FROM ledger_bounds b
 CROSS JOIN LATERAL (
       SELECT coalesce(min(o.started_at) FILTER (WHERE o.request = sha256(convert_to($16, 'UTF8'))),
                       min(o.started_at) FILTER (WHERE o.request IS NULL),
                       max(o.started_at) + interval '1 microsecond', $6::timestamptz) AS started_at
         FROM application_operations o
        WHERE o.account_id = $1 AND o.runtime = $2 AND o.namespace = $3 AND o.name = $4 AND o.uid = $5
          AND o.started_at >= $6::timestamptz AND o.started_at < $6::timestamptz + interval '1 millisecond') p
 WHERE $6::timestamptz >= b.oldest AND $6::timestamptz < b.newest AND :{runtime_is_there}
ON CONFLICT (account_id, runtime, namespace, name, uid, started_at) DO UPDATE
   SET finished_at = excluded.finished_at, phase = excluded.phase, message = excluded.message,
       revision = excluded.revision, initiator = excluded.initiator, is_automated = excluded.is_automated,
       epoch = excluded.epoch, sequence = excluded.sequence, observed_at = excluded.observed_at,
       request = excluded.request, is_dry_run = excluded.is_dry_run, is_partial = excluded.is_partial
 WHERE (excluded.epoch, excluded.sequence, excluded.observed_at) > (t.epoch, t.sequence, t.observed_at)
   AND (t.finished_at IS NULL
        OR (t.finished_at, t.phase, t.message, t.revision) IS DISTINCT FROM
           (excluded.finished_at, excluded.phase, excluded.message, excluded.revision))
