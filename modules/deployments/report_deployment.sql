-- Entries of status.history for the deployment ledger (migrations/0011). When the application's row says
-- that :history_ids are all there, that is the end of it.
-- name: deployment_add
SELECT deployments_add(:account_id, :runtime, :namespace, :name, :uid, :history::jsonb)
 WHERE :{runtime_is_there}
   AND NOT EXISTS (SELECT FROM applications a
                    WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.namespace = :namespace
                        AND a.name = :name AND a.ledger_uid = :uid AND a.ledger_ids @> :history_ids::bigint[])

-- Every sync operation, whether it came to a deployment or failed; the newest state of each
-- stays. One that has ended will not change, so that it is not written again with each report of
-- its application. One of a time for which there is no month (years off, or long ago) is to be
-- seen in its application's row only. Argo CD's times are whole seconds: operations that begin in
-- the same second and ask for different things (:request) are filed one microsecond behind each other.
-- name: application_operation_upsert
INSERT INTO application_operations AS t (account_id, runtime, namespace, name, uid, started_at, finished_at, phase,
                                         message, revision, initiator, is_automated, epoch, sequence, observed_at,
                                         request, is_dry_run, is_partial)
SELECT :account_id, :runtime, :namespace, :name, :uid, p.started_at, :finished_at::timestamptz, :phase, :message,
       :revision, :initiator, :is_automated::boolean, :epoch::bigint, :sequence::bigint, :observed_at::timestamptz,
       sha256(convert_to(:request, 'UTF8')), :is_dry_run::boolean, :is_partial::boolean
  FROM ledger_bounds b
 CROSS JOIN LATERAL (
       SELECT coalesce(min(o.started_at) FILTER (WHERE o.request = sha256(convert_to(:request, 'UTF8'))),
                       min(o.started_at) FILTER (WHERE o.request IS NULL),
                       max(o.started_at) + interval '1 microsecond', :started_at::timestamptz) AS started_at
         FROM application_operations o
        WHERE o.account_id = :account_id AND o.runtime = :runtime AND o.namespace = :namespace AND o.name = :name
          AND o.uid = :uid AND o.started_at >= :started_at::timestamptz
          AND o.started_at < :started_at::timestamptz + interval '1 millisecond') p
 WHERE :started_at::timestamptz >= b.oldest AND :started_at::timestamptz < b.newest AND :{runtime_is_there}
ON CONFLICT (account_id, runtime, namespace, name, uid, started_at) DO UPDATE
   SET finished_at = excluded.finished_at, phase = excluded.phase, message = excluded.message,
       revision = excluded.revision, initiator = excluded.initiator, is_automated = excluded.is_automated,
       epoch = excluded.epoch, sequence = excluded.sequence, observed_at = excluded.observed_at,
       request = excluded.request, is_dry_run = excluded.is_dry_run, is_partial = excluded.is_partial
 WHERE (excluded.epoch, excluded.sequence, excluded.observed_at) > (t.epoch, t.sequence, t.observed_at)
   AND (t.finished_at IS NULL
        OR (t.finished_at, t.phase, t.message, t.revision) IS DISTINCT FROM
           (excluded.finished_at, excluded.phase, excluded.message, excluded.revision))
