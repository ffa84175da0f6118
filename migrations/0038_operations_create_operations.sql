-- older-binaries: work
-- Changes to a cluster that users asked for, from the request to their end:
-- docs/internals/operations.md.
CREATE TABLE culvert.operations (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    operation_id text COLLATE "C" NOT NULL,     -- UUIDv7
    runtime text COLLATE "C" NOT NULL,
    runtime_id text COLLATE "C" NOT NULL,       -- a new runtime of the same name does not get it
    bulk_id text COLLATE "C",
    action text COLLATE "C" NOT NULL CHECK (length(action) <= 40),
    api_group text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C",
    resource_version text COLLATE "C",
    parameters jsonb NOT NULL DEFAULT '{}',
    requested_by text COLLATE "C" NOT NULL,     -- user id
    requested_by_name text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    request_sha256 bytea NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'QUEUED'
        CHECK (state IN ('WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING', 'DONE', 'FAILED', 'EXPIRED', 'UNKNOWN',
                         'CANCELLED')),
    code text COLLATE "C",
    message text COLLATE "C",
    epoch bigint,                               -- of the session that it was last sent over
    attempts integer NOT NULL DEFAULT 0,        -- how often it was sent
    created_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    accepted_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, operation_id)
);
CREATE UNIQUE INDEX operations_idempotency ON culvert.operations (account_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX operations_open ON culvert.operations (account_id, runtime, operation_id)
    WHERE state IN ('WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING');
CREATE INDEX operations_bulk ON culvert.operations (account_id, bulk_id, operation_id) WHERE bulk_id IS NOT NULL;
CREATE INDEX operations_finished ON culvert.operations (finished_at) WHERE finished_at IS NOT NULL;

ALTER TABLE culvert.operations ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.operations FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.operations USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.operations FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.operations TO culvert_app;
GRANT SELECT, UPDATE, DELETE ON culvert.operations TO culvert_lookup;

-- Operations for agents whose sessions this replica holds, noted as sent before they are: those
-- that were never sent,
-- those that were sent over a session that has ended, and those whose agent has not reported for
-- resend_ms. Another
-- replica may ask at the same time and gets others.
CREATE FUNCTION culvert.operations_claim(held_by text, resend_ms bigint, row_limit integer)
RETURNS TABLE (account_id text, runtime text, epoch bigint, operation_id text, attempt integer, ttl_ms bigint,
               document text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET TimeZone = 'UTC' AS $$
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS place, s.epoch
          FROM culvert.operations o
         CROSS JOIN LATERAL (
               SELECT t.epoch, t.replica, t.runtime_id
                 FROM culvert.tunnel_sessions t
                WHERE t.account_id = o.account_id AND t.runtime = o.runtime AND t.closed_at IS NULL
                ORDER BY t.epoch DESC
                LIMIT 1) s
         WHERE o.state IN ('QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING')
           AND s.replica = held_by AND s.runtime_id = o.runtime_id
           AND (o.state <> 'QUEUED' OR o.expires_at > now())
           AND (o.state = 'QUEUED' OR o.epoch < s.epoch OR o.sent_at < now() - resend_ms * interval '1 millisecond')
         ORDER BY o.operation_id
         LIMIT row_limit
           FOR UPDATE OF o SKIP LOCKED)
    UPDATE culvert.operations o
       SET state = CASE WHEN o.state = 'QUEUED' THEN 'DELIVERED' ELSE o.state END, epoch = due.epoch,
           attempts = o.attempts + 1, sent_at = now()
      FROM due
     WHERE o.ctid = due.place
    RETURNING o.account_id, o.runtime, o.epoch, o.operation_id, o.attempts,
              greatest(extract(epoch FROM o.expires_at - now()) * 1000, 0)::bigint,
              json_build_object('action', o.action, 'group', o.api_group, 'kind', o.kind, 'namespace', o.namespace,
                                'name', o.name, 'uid', o.uid, 'resourceVersion', o.resource_version,
                                'by', o.requested_by_name,
                                'at', to_char(o.created_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                                'parameters', o.parameters)::text
$$;

-- What nobody will answer any more. An operation that was sent and not answered may have run.
CREATE FUNCTION culvert.operations_expire(grace_ms bigint, run_ms bigint, row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH late AS MATERIALIZED (
        SELECT o.ctid AS place, o.state
          FROM culvert.operations o
         WHERE o.state IN ('WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING')
           AND o.expires_at < now() - CASE WHEN o.state IN ('WAITING', 'QUEUED') THEN 0
                                           WHEN o.state = 'RUNNING' THEN run_ms
                                           ELSE grace_ms END * interval '1 millisecond'
         LIMIT row_limit
           FOR UPDATE OF o SKIP LOCKED),
    ended AS (
        UPDATE culvert.operations o
           SET state = CASE WHEN late.state IN ('WAITING', 'QUEUED') THEN 'EXPIRED' ELSE 'UNKNOWN' END,
               code = CASE WHEN late.state IN ('WAITING', 'QUEUED') THEN 'EXPIRED' ELSE 'NO_ANSWER' END,
               message = CASE WHEN late.state IN ('WAITING', 'QUEUED')
                              THEN 'the agent was not connected before the operation expired'
                              ELSE 'the agent did not report the end of the operation; it may have run' END,
               finished_at = now()
          FROM late
         WHERE o.ctid = late.place
        RETURNING 1)
    SELECT count(*) FROM ended
$$;

CREATE FUNCTION culvert.operations_trim(keep_days integer, row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH gone AS (
        DELETE FROM culvert.operations o
         WHERE o.ctid = ANY (ARRAY(SELECT p.ctid FROM culvert.operations p
                                    WHERE p.finished_at < now() - keep_days * interval '1 day'
                                    LIMIT row_limit))
        RETURNING 1)
    SELECT count(*) FROM gone
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
    FOREACH function_name IN ARRAY ARRAY['operations_claim(text, bigint, integer)',
                                         'operations_expire(bigint, bigint, integer)',
                                         'operations_trim(integer, integer)'] LOOP
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
