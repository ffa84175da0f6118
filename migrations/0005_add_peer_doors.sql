-- older-binaries: work
-- Replicas reach one another: the address of each replica's peer door stands beside its lease. And what they last
-- measured of their sessions, for people who look.

ALTER TABLE culvert.replica_leases
    ADD COLUMN peer_address text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(peer_address) <= 300);

-- A replica asks which of its sessions others have ended.
CREATE INDEX tunnel_sessions_ended ON culvert.tunnel_sessions (replica, closed_at) WHERE closed_at IS NOT NULL;

-- Not logged: it is written every few seconds, and a crash loses nothing that anybody needs.
CREATE UNLOGGED TABLE culvert.tunnel_measures (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    rtt_us bigint NOT NULL,
    streams integer NOT NULL,
    bytes_in bigint NOT NULL,
    bytes_out bigint NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 50);
ALTER TABLE culvert.tunnel_measures ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.tunnel_measures FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.tunnel_measures USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.tunnel_measures FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
CREATE POLICY lookup ON culvert.runtimes FOR SELECT TO culvert_lookup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.tunnel_measures TO culvert_app, culvert_lookup;
GRANT SELECT ON culvert.runtimes TO culvert_lookup;
GRANT SELECT ON culvert.replica_leases TO culvert_lookup;

-- Sessions of a replica that were ended after `since`, by whomever: it may still believe that they are its own.
CREATE FUNCTION culvert.sessions_ended(held_by text, since timestamptz)
RETURNS TABLE (account_id text, runtime text, epoch bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT s.account_id, s.runtime, s.epoch
      FROM culvert.tunnel_sessions s
     WHERE s.replica = held_by AND s.closed_at >= since
$$;

-- measures: [{"a": account, "r": runtime, "e": epoch, "t": round trip in us, "s": streams, "i": bytes in, "o": out}].
-- A runtime that is gone is passed over; an older session's numbers never replace a newer one's.
CREATE FUNCTION culvert.tunnels_measured(measures json) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH kept AS (
        INSERT INTO culvert.tunnel_measures AS m (account_id, runtime, epoch, rtt_us, streams, bytes_in, bytes_out)
        SELECT r.account_id, r.runtime, x.e, x.t, x.s, x.i, x.o
          FROM json_to_recordset(measures) AS x (a text, r text, e bigint, t bigint, s integer, i bigint, o bigint)
          JOIN culvert.runtimes r ON r.account_id = x.a AND r.runtime = x.r
        ON CONFLICT (account_id, runtime) DO UPDATE
           SET epoch = excluded.epoch, rtt_us = excluded.rtt_us, streams = excluded.streams,
               bytes_in = excluded.bytes_in, bytes_out = excluded.bytes_out, measured_at = now()
         WHERE m.epoch <= excluded.epoch
        RETURNING 1)
    SELECT count(*) FROM kept
$$;

-- What is known of tunnels, one JSON object a session: those that are open and those that were taken over in the last
-- minute. wanted: an account's id, or empty for all.
CREATE FUNCTION culvert.tunnels_list(wanted text, row_limit integer) RETURNS TABLE (node json)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT json_build_object(
               'account', s.account_id, 'runtime', s.runtime, 'replica', s.replica, 'epoch', s.epoch,
               'since', to_char(s.opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'rttUs', m.rtt_us, 'streams', m.streams, 'bytesIn', m.bytes_in, 'bytesOut', m.bytes_out,
               'version', s.agent_version, 'instance', s.instance_id,
               'state', CASE WHEN s.closed_at IS NOT NULL THEN 'superseded'
                             WHEN l.expires_at IS NULL OR l.expires_at <= now() THEN 'expired'
                             WHEN l.renewed_at < now() - (l.expires_at - l.renewed_at) * 0.6 THEN 'lagging'
                             ELSE 'live' END)
      FROM culvert.tunnel_sessions s
      LEFT JOIN culvert.replica_leases l ON l.replica = s.replica
      LEFT JOIN culvert.tunnel_measures m
             ON m.account_id = s.account_id AND m.runtime = s.runtime AND m.epoch = s.epoch
     WHERE (s.closed_at IS NULL OR (s.close_reason = 'superseded' AND s.closed_at > now() - interval '1 minute'))
       AND (wanted = '' OR s.account_id = wanted)
     ORDER BY s.account_id, s.runtime, s.epoch DESC
     LIMIT row_limit
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    FOREACH function_name IN ARRAY ARRAY['sessions_ended(text, timestamptz)', 'tunnels_measured(json)',
                                         'tunnels_list(text, integer)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
