-- What all that an account's runtimes told is at, in one word: as long as it is the same, so is every list of
-- applications, clusters and rollouts that is shown of them, and how fresh each is.
--
-- xmin names the transaction that wrote a row last. Every transaction that applies reports writes the position rows of
-- its runtimes (report_open), so that there is no such transaction without another word, and no word that comes back:
-- transactions are numbered upwards (a restored PostgreSQL may number anew, but has started later). What freshness
-- depends on besides is the session's row, and time; the words that time makes are in it. Sessions of a lease that is
-- about to run out come and go with that lease, so then it counts, too.
-- name: answer_version
SELECT concat(md5(string_agg(
           format('%s %s %s %s %s %s %s %s %s %s', f.runtime, r.xmin, p.xmin, t.xmin, f.session_epoch,
                  f.confirmed_epoch, f.tunnel_freshness, f.unconfirmed_freshness, f.http_freshness,
                  CASE WHEN l.expires_at < now() + interval '5 seconds' THEN l.xmin END), ',' ORDER BY f.runtime)),
       '-', extract(epoch FROM pg_postmaster_start_time()))
  FROM runtime_freshness f
  JOIN runtimes r ON r.account_id = f.account_id AND r.runtime = f.runtime
  LEFT JOIN report_positions p ON p.account_id = f.account_id AND p.runtime = f.runtime
  LEFT JOIN tunnel_sessions t ON t.account_id = f.account_id AND t.runtime = f.runtime AND t.epoch = f.session_epoch
  LEFT JOIN replica_leases l ON l.replica = t.replica
 WHERE f.account_id = :account_id
