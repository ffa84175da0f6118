-- older-binaries: work
-- Kubernetes Events of objects that agents report: what the cluster itself notes about them. One
-- row an Event; a repetition raises its count. A row is written only while its object is there, at
-- most 50 of an object are kept, and they go with the object.
CREATE TABLE culvert.kubernetes_events (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    event_uid text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL,        -- of the object
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    application_namespace text COLLATE "C" NOT NULL,
    application_name text COLLATE "C" NOT NULL, -- '': the object belongs to none
    type text COLLATE "C" NOT NULL,             -- Normal, Warning
    reason text COLLATE "C",
    message text COLLATE "C",
    component text COLLATE "C",                 -- which controller wrote it
    count bigint NOT NULL,                      -- how often it happened
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, cluster, event_uid),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 90);
CREATE INDEX kubernetes_events_newest ON culvert.kubernetes_events (account_id, last_at, event_uid);
CREATE INDEX kubernetes_events_object ON culvert.kubernetes_events
    (account_id, runtime, cluster, namespace, name, kind, api_group, last_at);
CREATE INDEX kubernetes_events_application ON culvert.kubernetes_events
    (account_id, runtime, application_namespace, application_name, last_at);

ALTER TABLE culvert.kubernetes_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.kubernetes_events FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.kubernetes_events USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.kubernetes_events FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.kubernetes_events TO culvert_app, culvert_lookup;

-- An object that is gone takes its Events with it.
CREATE FUNCTION culvert.resource_kubernetes_events_go() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.kubernetes_events e
     WHERE e.account_id = OLD.account_id AND e.runtime = OLD.runtime AND e.cluster = OLD.cluster
       AND e.namespace = OLD.namespace AND e.name = OLD.name AND e.kind = OLD.kind AND e.api_group = OLD.api_group;
    RETURN NULL;
END
$$;
CREATE TRIGGER kubernetes_events_go AFTER UPDATE OF is_deleted ON culvert.resources
    FOR EACH ROW WHEN (NEW.is_deleted AND NOT OLD.is_deleted) EXECUTE FUNCTION culvert.resource_kubernetes_events_go();

CREATE FUNCTION culvert.application_kubernetes_events_go() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.kubernetes_events e
     WHERE e.account_id = OLD.account_id AND e.runtime = OLD.runtime AND e.namespace = OLD.namespace
       AND e.name = OLD.name AND e.kind = 'Application' AND e.api_group = 'argoproj.io';
    RETURN NULL;
END
$$;
CREATE TRIGGER kubernetes_events_go AFTER UPDATE OF is_deleted ON culvert.applications
    FOR EACH ROW WHEN (NEW.is_deleted AND NOT OLD.is_deleted)
    EXECUTE FUNCTION culvert.application_kubernetes_events_go();

-- Removes up to row_limit rows: those that did not happen again for keep_days, and the oldest ones
-- of accounts that have more than account_max. Returns how many.
CREATE FUNCTION culvert.kubernetes_events_trim(keep_days integer, account_max bigint, row_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    account text;
    removed bigint := 0;
    here bigint;
BEGIN
    IF keep_days < 1 OR account_max < 1000 THEN
        RAISE EXCEPTION 'Kubernetes Events are kept for at least 1 day, and 1000 of an account'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 8) THEN
        RETURN 0; -- another replica does it
    END IF;
    FOR account IN SELECT a.account_id FROM culvert.accounts a ORDER BY a.account_id LOOP
        EXIT WHEN removed >= row_limit;
        WITH old AS (
            SELECT e.runtime, e.cluster, e.event_uid
              FROM culvert.kubernetes_events e
             WHERE e.account_id = account AND e.last_at < now() - keep_days * interval '1 day'
             ORDER BY e.last_at
             LIMIT row_limit - removed
               FOR UPDATE SKIP LOCKED),
        gone AS (
            DELETE FROM culvert.kubernetes_events e
             USING old o
             WHERE e.account_id = account AND e.runtime = o.runtime AND e.cluster = o.cluster
               AND e.event_uid = o.event_uid
            RETURNING 1)
        SELECT count(*) INTO here FROM gone;
        removed := removed + here;
        EXIT WHEN removed >= row_limit;
        WITH newest AS (
            SELECT e.last_at
              FROM culvert.kubernetes_events e
             WHERE e.account_id = account
             ORDER BY e.last_at DESC
            OFFSET account_max LIMIT 1),
        old AS (
            SELECT e.runtime, e.cluster, e.event_uid
              FROM culvert.kubernetes_events e, newest n
             WHERE e.account_id = account AND e.last_at <= n.last_at
             ORDER BY e.last_at
             LIMIT row_limit - removed
               FOR UPDATE OF e SKIP LOCKED),
        gone AS (
            DELETE FROM culvert.kubernetes_events e
             USING old o
             WHERE e.account_id = account AND e.runtime = o.runtime AND e.cluster = o.cluster
               AND e.event_uid = o.event_uid
            RETURNING 1)
        SELECT count(*) INTO here FROM gone;
        removed := removed + here;
    END LOOP;
    RETURN removed;
END
$$;

-- What sweeps all accounts belongs to culvert_lookup, as in 0049.
GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    REVOKE ALL ON FUNCTION culvert.kubernetes_events_trim(integer, bigint, integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.kubernetes_events_trim(integer, bigint, integer) TO culvert_app;
    ALTER FUNCTION culvert.kubernetes_events_trim(integer, bigint, integer) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
