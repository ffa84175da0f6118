-- older-binaries: work
-- How fresh what is shown is, and why a runtime is not connected. The one place where both are defined.

-- Of a session: why it ended in one word, when its agent was heard last, and how far its agent is behind its cluster.
ALTER TABLE culvert.tunnel_sessions
    ADD COLUMN close_cause text COLLATE "C" CHECK (length(close_cause) <= 40),
    ADD COLUMN last_heard_at timestamptz,
    ADD COLUMN behind_since timestamptz, -- the agent's oldest change that is not durable here
    ADD COLUMN blind_since timestamptz;  -- since when the agent has not been able to see some of its cluster

-- What is known of a runtime's link and of its reports, one row a runtime. A query asks it once for each runtime that
-- it shows, not for each row.
--
-- lag              by how much what is shown may be behind the cluster; NULL: nothing was ever told
-- freshness        of the runtime as a whole
-- confirmed_epoch  what was told in this session's epoch or a later one is as fresh as the agent is: tunnel_freshness;
--                  what is older has not been confirmed by this session yet: unconfirmed_freshness;
--                  what came over HTTP (epoch 0) goes by http_freshness
--
-- disconnected: no session with a lease (HTTP: no word for 20 minutes). live: less than 5 s behind (HTTP: a word within
-- 5 minutes). lagging: less than 60 s behind (HTTP: 10 minutes), or the inventory of a new session is under way for
-- less than that. stale: more.
CREATE VIEW culvert.runtime_freshness WITH (security_invoker = true) AS
SELECT r.account_id, r.runtime, s.session_epoch, s.agent_version, s.opened_at, s.closed_at, s.close_reason,
       s.online, h.http_live, s.online OR h.http_live AS available,
       greatest(p.tunnel_observed_at, p.http_observed_at) AS observed_at,
       greatest(p.tunnel_received_at, p.http_received_at) AS received_at,
       p.epoch AS position_epoch, p.sequence AS position_sequence,
       CASE WHEN s.online THEN greatest(s.opened_at, least(s.renewed_at, now()), p.tunnel_received_at, p.http_received_at)
            ELSE greatest(coalesce(s.last_heard_at, s.gone_at), p.tunnel_received_at, p.http_received_at)
       END AS last_seen_at,
       CASE WHEN s.online THEN s.opened_at ELSE s.gone_at END AS since,
       CASE WHEN s.online THEN NULL
            WHEN s.session_epoch IS NULL THEN 'NEVER_CONNECTED'
            WHEN s.closed_at IS NULL OR s.close_reason = 'replica restarted' THEN 'REPLICA_DIED'
            WHEN s.close_reason = 'superseded' THEN 'SUPERSEDED'
            ELSE coalesce(s.close_cause, 'UNKNOWN') END AS disconnect_cause,
       f.lag, f.confirmed_epoch, f.tunnel_freshness, f.unconfirmed_freshness, f.http_freshness,
       CASE WHEN s.online AND coalesce(p.epoch, 0) > 0 AND f.confirmed_epoch = 0 THEN f.tunnel_freshness
            WHEN s.online AND coalesce(p.epoch, 0) > 0 THEN f.unconfirmed_freshness
            WHEN p.http_received_at IS NOT NULL AND (h.http_live OR NOT s.online) THEN f.http_freshness
            ELSE f.tunnel_freshness END AS freshness
  FROM culvert.runtimes r
  LEFT JOIN culvert.report_positions p ON p.account_id = r.account_id AND p.runtime = r.runtime
  LEFT JOIN LATERAL (
       SELECT t.epoch, t.agent_version, t.opened_at, t.closed_at, t.close_reason, t.close_cause, t.last_heard_at,
              t.behind_since, t.blind_since, l.expires_at, l.renewed_at
         FROM culvert.tunnel_sessions t
         LEFT JOIN culvert.replica_leases l ON l.replica = t.replica
        WHERE t.account_id = r.account_id AND t.runtime = r.runtime
        ORDER BY t.epoch DESC
        LIMIT 1) t ON true
 CROSS JOIN LATERAL (
       SELECT t.epoch AS session_epoch, t.agent_version, t.opened_at, t.closed_at, t.close_reason, t.close_cause,
              t.last_heard_at, t.renewed_at, coalesce(t.closed_at IS NULL AND t.expires_at > now(), false) AS online,
              coalesce(t.closed_at, t.expires_at, t.opened_at) AS gone_at,
              now() - least(t.behind_since, t.blind_since) AS behind
       OFFSET 0) s
 CROSS JOIN LATERAL (
       SELECT coalesce(p.http_received_at > now() - interval '20 minutes', false) AS http_live) h
 CROSS JOIN LATERAL (
       SELECT CASE WHEN NOT s.online AND NOT h.http_live THEN
                        now() - greatest(coalesce(s.last_heard_at, s.gone_at), p.tunnel_received_at, p.http_received_at)
                   WHEN NOT s.online OR (coalesce(p.epoch, 0) = 0 AND h.http_live) THEN now() - p.http_received_at
                   WHEN coalesce(p.epoch, 0) > 0 AND p.snapshot_end_epoch < s.session_epoch THEN
                        greatest(now() - s.opened_at, s.behind)
                   ELSE greatest(s.behind, interval '0') END AS lag,
              CASE WHEN p.snapshot_end_epoch >= s.session_epoch THEN 0 ELSE coalesce(s.session_epoch, 0)
              END AS confirmed_epoch,
              CASE WHEN NOT s.online THEN 'disconnected'
                   WHEN s.behind >= interval '60 seconds' THEN 'stale'
                   WHEN s.behind >= interval '5 seconds' THEN 'lagging'
                   ELSE 'live' END AS tunnel_freshness,
              CASE WHEN NOT s.online THEN 'disconnected'
                   WHEN s.behind >= interval '60 seconds' OR s.opened_at < now() - interval '60 seconds' THEN 'stale'
                   ELSE 'lagging' END AS unconfirmed_freshness,
              CASE WHEN NOT h.http_live THEN 'disconnected'
                   WHEN p.http_received_at > now() - interval '5 minutes' THEN 'live'
                   WHEN p.http_received_at > now() - interval '10 minutes' THEN 'lagging'
                   ELSE 'stale' END AS http_freshness) f;
GRANT SELECT ON culvert.runtime_freshness TO culvert_app;

-- Of one row that was told in row_epoch; the rest is its runtime's, from runtime_freshness.
CREATE FUNCTION culvert.entity_freshness(row_epoch bigint, confirmed_epoch bigint, tunnel_freshness text,
                                         unconfirmed_freshness text, http_freshness text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN row_epoch = 0 THEN http_freshness
                WHEN row_epoch >= confirmed_epoch THEN tunnel_freshness
                ELSE unconfirmed_freshness END
$$;
