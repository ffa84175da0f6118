-- older-binaries: work
-- Changes of state as rows: health, sync status and operation phase of an application, health of a
-- resource, phase of a rollout. A trigger writes them in the transaction of the report, under the
-- lock on the position of the runtime (report_open), so the changes of one object have rising
-- numbers. A report that changes none of these fields costs the comparison in WHEN.
CREATE SEQUENCE culvert.transitions_number;
CREATE SEQUENCE culvert.transitions_merged;

-- Partitioned by the week of the commit. Further changes of an object that has per_hour_max of them
-- in an hour are merged into the newest row of the field.
CREATE TABLE culvert.transitions (
    account_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL DEFAULT nextval('culvert.transitions_number'),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    observed_at timestamptz NOT NULL,           -- as the cluster states it
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    application_namespace text COLLATE "C" NOT NULL,
    application_name text COLLATE "C" NOT NULL, -- its own; '': it belongs to none
    field text COLLATE "C" NOT NULL,            -- HEALTH, SYNC, OPERATION, PHASE, PRESENCE
    from_value text COLLATE "C",                -- NULL: not known
    to_value text COLLATE "C",
    message text COLLATE "C",
    cause text COLLATE "C" NOT NULL,            -- REPORT, OPERATION, SWEEP
    operation_started_at timestamptz,           -- of the sync operation of Argo CD
    operation_id text COLLATE "C",              -- of the operation of the platform that began it
    actor text COLLATE "C",                     -- who began it
    merged integer NOT NULL DEFAULT 0,          -- further changes that this row stands for
    PRIMARY KEY (account_id, number, recorded_at)
) PARTITION BY RANGE (recorded_at);
CREATE INDEX transitions_application ON culvert.transitions (account_id, application_name, number);
-- Rows of a week that has no partition: a report never fails for want of one.
CREATE TABLE culvert.transitions_other PARTITION OF culvert.transitions DEFAULT;
ALTER TABLE culvert.transitions_other ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.transitions_other FORCE ROW LEVEL SECURITY;

ALTER TABLE culvert.transitions ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.transitions FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.transitions USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.transitions FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.transitions TO culvert_app, culvert_lookup;
GRANT USAGE ON SEQUENCE culvert.transitions_number, culvert.transitions_merged TO culvert_app, culvert_lookup;
GRANT SELECT ON SEQUENCE culvert.transitions_merged TO culvert_lookup;

-- What triggers read of the settings, and how many merged changes were counted.
CREATE TABLE culvert.transition_limits (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    per_hour_max integer NOT NULL,
    merged_counted bigint NOT NULL
);
INSERT INTO culvert.transition_limits (per_hour_max, merged_counted) VALUES (60, 0);
GRANT SELECT ON culvert.transition_limits TO culvert_app, culvert_lookup;
GRANT UPDATE ON culvert.transition_limits TO culvert_lookup;

-- ---- writing ------------------------------------------------------------------------------------

-- How many changes of an object were stored since a time in the last hour. Kept with the object: to
-- ask the transitions for it costs more than to store one.
ALTER TABLE culvert.applications
    ADD COLUMN transitions_count integer NOT NULL DEFAULT 0,
    ADD COLUMN transitions_since timestamptz;
ALTER TABLE culvert.resources
    ADD COLUMN transitions_count integer NOT NULL DEFAULT 0,
    ADD COLUMN transitions_since timestamptz;
ALTER TABLE culvert.rollouts
    ADD COLUMN transitions_count integer NOT NULL DEFAULT 0,
    ADD COLUMN transitions_since timestamptz;

-- Whether an object with so many changes in the last hour has all that it may have. The least that
-- the setting accepts is not looked up.
CREATE FUNCTION culvert.transitions_are_too_many(changes integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN changes > 10 AND changes > (SELECT l.per_hour_max FROM culvert.transition_limits l WHERE l.is_only);
END
$$;

-- Adds a change to the newest row of the object's field in the last hours; false: there is none.
CREATE FUNCTION culvert.transition_merge(change culvert.transitions) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    newest record;
BEGIN
    SELECT t.recorded_at, t.number INTO newest
      FROM culvert.transitions t
     WHERE t.account_id = change.account_id AND t.application_name = change.application_name
       AND t.runtime = change.runtime AND t.kind = change.kind AND t.namespace = change.namespace
       AND t.name = change.name AND t.field = change.field AND t.cluster = change.cluster
       AND t.api_group = change.api_group AND t.recorded_at > now() - interval '2 hours'
     ORDER BY t.number DESC
     LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM nextval('culvert.transitions_merged');
    UPDATE culvert.transitions t
       SET to_value = change.to_value, message = left(change.message, 512), observed_at = change.observed_at,
           uid = change.uid, cause = change.cause, operation_started_at = change.operation_started_at,
           operation_id = change.operation_id, actor = change.actor, merged = t.merged + 1
     WHERE t.account_id = change.account_id AND t.number = newest.number AND t.recorded_at = newest.recorded_at;
    RETURN true;
END
$$;

CREATE FUNCTION culvert.transition_add(change culvert.transitions, is_merged boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF is_merged AND culvert.transition_merge(change) THEN
        RETURN;
    END IF;
    INSERT INTO culvert.transitions (account_id, observed_at, runtime, cluster, api_group, kind, namespace, name, uid,
                                     application_namespace, application_name, field, from_value, to_value, message,
                                     cause, operation_started_at, operation_id, actor)
    VALUES (change.account_id, change.observed_at, change.runtime, change.cluster, change.api_group, change.kind,
            change.namespace, change.name, change.uid, change.application_namespace, change.application_name,
            change.field, change.from_value, change.to_value, left(change.message, 512), change.cause,
            change.operation_started_at, change.operation_id, change.actor);
END
$$;

-- A change belongs to the operation that runs, or that ends with the same report.
CREATE FUNCTION culvert.application_transitions() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    t culvert.transitions;
    is_merged boolean := false;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.transitions_since > now() - interval '1 hour' THEN
            NEW.transitions_count := OLD.transitions_count + 1;
        ELSE
            NEW.transitions_count := 1;
            NEW.transitions_since := now();
        END IF;
        is_merged := culvert.transitions_are_too_many(NEW.transitions_count);
    END IF;
    t.account_id := NEW.account_id;
    t.observed_at := NEW.observed_at;
    t.runtime := NEW.runtime;
    t.cluster := NEW.cluster;
    t.api_group := 'argoproj.io';
    t.kind := 'Application';
    t.namespace := NEW.namespace;
    t.name := NEW.name;
    t.uid := NEW.uid;
    t.application_namespace := NEW.namespace;
    t.application_name := NEW.name;
    t.cause := 'REPORT';
    IF TG_OP = 'INSERT' OR NEW.is_deleted <> OLD.is_deleted THEN
        t.field := 'PRESENCE';
        IF TG_OP = 'UPDATE' THEN
            t.from_value := CASE WHEN OLD.is_deleted THEN 'DELETED' ELSE 'PRESENT' END;
        END IF;
        t.to_value := CASE WHEN NEW.is_deleted THEN 'DELETED' ELSE 'PRESENT' END;
        -- A report about it has a time of its own; the end of a snapshot has none.
        IF NEW.is_deleted AND NEW.observed_at = OLD.observed_at THEN
            t.cause := 'SWEEP';
            t.observed_at := now();
        END IF;
        PERFORM culvert.transition_add(t, is_merged);
        t.from_value := NULL;
        t.observed_at := NEW.observed_at;
    END IF;
    IF TG_OP = 'INSERT' OR NEW.is_deleted THEN
        RETURN NEW;
    END IF;
    IF NEW.operation_phase IN ('Running', 'Terminating') OR NEW.operation_phase IS DISTINCT FROM OLD.operation_phase
       OR NEW.operation_started_at IS DISTINCT FROM OLD.operation_started_at THEN
        t.cause := 'OPERATION';
        t.operation_started_at := NEW.operation_started_at;
        t.actor := left(coalesce(NEW.operation ->> 'initiator',
                                 CASE WHEN NEW.operation @> '{"automated": true}' THEN 'automated sync' END), 256);
        SELECT o.operation_id INTO t.operation_id
          FROM culvert.operations o
         WHERE o.account_id = NEW.account_id AND o.runtime = NEW.runtime AND o.kind = 'Application'
           AND o.namespace = NEW.namespace AND o.name = NEW.name AND o.action IN ('SYNC', 'APP_ROLLBACK')
           AND o.state IN ('DELIVERED', 'ACCEPTED', 'RUNNING')
         LIMIT 1;
    END IF;
    IF NEW.operation_phase IS DISTINCT FROM OLD.operation_phase
       OR NEW.operation_started_at IS DISTINCT FROM OLD.operation_started_at THEN
        t.field := 'OPERATION';
        t.from_value := OLD.operation_phase;
        t.to_value := NEW.operation_phase;
        t.message := NEW.operation_message;
        t.observed_at := coalesce(NEW.operation_finished_at, NEW.operation_started_at, NEW.observed_at);
        PERFORM culvert.transition_add(t, is_merged);
        t.observed_at := NEW.observed_at;
    END IF;
    IF NEW.sync_status IS DISTINCT FROM OLD.sync_status THEN
        t.field := 'SYNC';
        t.from_value := OLD.sync_status;
        t.to_value := NEW.sync_status;
        t.message := NEW.sync_revision;
        PERFORM culvert.transition_add(t, is_merged);
    END IF;
    IF NEW.health_status IS DISTINCT FROM OLD.health_status THEN
        t.field := 'HEALTH';
        t.from_value := OLD.health_status;
        t.to_value := NEW.health_status;
        t.message := NEW.health_message;
        PERFORM culvert.transition_add(t, is_merged);
    END IF;
    RETURN NEW;
END
$$;

-- Before an update, because it counts in the row. Before an insert it would run for each upsert.
CREATE TRIGGER transitions_first AFTER INSERT ON culvert.applications
    FOR EACH ROW WHEN (NOT NEW.is_deleted) EXECUTE FUNCTION culvert.application_transitions();
CREATE TRIGGER transitions BEFORE UPDATE ON culvert.applications
    FOR EACH ROW WHEN (OLD.health_status IS DISTINCT FROM NEW.health_status
                       OR OLD.sync_status IS DISTINCT FROM NEW.sync_status
                       OR OLD.operation_phase IS DISTINCT FROM NEW.operation_phase
                       OR OLD.operation_started_at IS DISTINCT FROM NEW.operation_started_at
                       OR OLD.is_deleted <> NEW.is_deleted)
    EXECUTE FUNCTION culvert.application_transitions();

-- One statement where nothing is merged: most changes are of resources.
CREATE FUNCTION culvert.resource_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.transitions_since > now() - interval '1 hour' THEN
        NEW.transitions_count := OLD.transitions_count + 1;
    ELSE
        NEW.transitions_count := 1;
        NEW.transitions_since := now();
    END IF;
    IF NEW.transitions_count > 10 AND culvert.transitions_are_too_many(NEW.transitions_count)
       AND culvert.transition_merge((NEW.account_id, NULL, NULL, NEW.observed_at, NEW.runtime, NEW.cluster,
                                     NEW.api_group, NEW.kind, NEW.namespace, NEW.name, NEW.uid, NULL,
                                     NEW.application_name, 'HEALTH', NULL, NEW.health_status, NEW.health_message,
                                     'REPORT', NULL, NULL, NULL, NULL)::culvert.transitions) THEN
        RETURN NEW;
    END IF;
    INSERT INTO culvert.transitions (account_id, observed_at, runtime, cluster, api_group, kind, namespace, name, uid,
                                     application_namespace, application_name, field, from_value, to_value, message,
                                     cause)
    VALUES (NEW.account_id, NEW.observed_at, NEW.runtime, NEW.cluster, NEW.api_group, NEW.kind, NEW.namespace,
            NEW.name, NEW.uid, NEW.application_namespace, NEW.application_name, 'HEALTH', OLD.health_status,
            NEW.health_status, left(NEW.health_message, 512), 'REPORT');
    RETURN NEW;
END
$$;
CREATE TRIGGER transitions BEFORE UPDATE ON culvert.resources
    FOR EACH ROW WHEN (OLD.health_status IS DISTINCT FROM NEW.health_status AND NOT NEW.is_deleted)
    EXECUTE FUNCTION culvert.resource_transition();

-- Its resource, which the same report wrote, has the time and the application.
CREATE FUNCTION culvert.rollout_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    t culvert.transitions;
BEGIN
    SELECT r.observed_at, r.application_namespace, r.application_name
      INTO t.observed_at, t.application_namespace, t.application_name
      FROM culvert.resources r
     WHERE r.account_id = NEW.account_id AND r.runtime = NEW.runtime AND r.cluster = NEW.cluster
       AND r.api_group = NEW.api_group AND r.kind = NEW.kind AND r.namespace = NEW.namespace AND r.name = NEW.name;
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    IF OLD.transitions_since > now() - interval '1 hour' THEN
        NEW.transitions_count := OLD.transitions_count + 1;
    ELSE
        NEW.transitions_count := 1;
        NEW.transitions_since := now();
    END IF;
    t.account_id := NEW.account_id;
    t.runtime := NEW.runtime;
    t.cluster := NEW.cluster;
    t.api_group := NEW.api_group;
    t.kind := NEW.kind;
    t.namespace := NEW.namespace;
    t.name := NEW.name;
    t.uid := NEW.uid;
    t.cause := 'REPORT';
    t.field := 'PHASE';
    t.from_value := OLD.phase;
    t.to_value := NEW.phase;
    t.message := NEW.message;
    PERFORM culvert.transition_add(t, culvert.transitions_are_too_many(NEW.transitions_count));
    RETURN NEW;
END
$$;
CREATE TRIGGER transitions BEFORE UPDATE ON culvert.rollouts
    FOR EACH ROW WHEN (OLD.phase IS DISTINCT FROM NEW.phase) EXECUTE FUNCTION culvert.rollout_transition();

-- ---- retention ----------------------------------------------------------------------------------

-- Makes the partitions of this week and the eight to come, drops one that ended more than keep_days
-- ago, and stores what triggers read of the settings. Returns how many were dropped. Gives up after
-- 300 ms of waiting for a lock; reports do not wait longer for it.
CREATE FUNCTION culvert.transitions_partitions(keep_days integer, per_hour_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    week timestamptz;
    name text;
BEGIN
    IF keep_days < 7 OR per_hour_max < 10 THEN
        RAISE EXCEPTION 'transitions are kept for at least 7 days, and 10 an hour of an object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 6) THEN
        RETURN 0; -- another replica does it
    END IF;
    UPDATE culvert.transition_limits l
       SET per_hour_max = transitions_partitions.per_hour_max
     WHERE l.per_hour_max <> transitions_partitions.per_hour_max;
    FOR i IN 0..8 LOOP
        week := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + i * interval '7 days';
        name := 'transitions_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD');
        CONTINUE WHEN to_regclass('culvert.' || name) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE culvert.%I (LIKE culvert.transitions INCLUDING ALL)', name);
            EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE culvert.transitions ATTACH PARTITION culvert.%I FOR VALUES FROM (%L) TO (%L)',
                           name, week, week + interval '7 days');
        EXCEPTION WHEN check_violation THEN
            CONTINUE; -- transitions_other has rows of that week; they stay there
        END;
    END LOOP;
    SELECT c.relname INTO name
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'culvert.transitions'::regclass AND c.relname ~ '^transitions_[0-9]{8}$'
       AND to_timestamp(right(c.relname, 8), 'YYYYMMDD') + interval '7 days' < now() - keep_days * interval '1 day'
     ORDER BY c.relname
     LIMIT 1;
    IF name IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format('DROP TABLE culvert.%I', name);
    RETURN 1;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION culvert.transitions_partitions(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.transitions_partitions(integer, integer) TO culvert_app;
SELECT culvert.transitions_partitions(7, 60);

-- Removes up to row_limit rows: the oldest ones of accounts that have more than account_max, and
-- expired ones of weeks without a partition. Returns how many.
CREATE FUNCTION culvert.transitions_trim(keep_days integer, account_max bigint, row_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    account text;
    newest_removed bigint;
    removed bigint := 0;
    here bigint;
BEGIN
    IF keep_days < 7 OR account_max < 1000 THEN
        RAISE EXCEPTION 'transitions are kept for at least 7 days, and 1000 of an account'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 7) THEN
        RETURN 0; -- another replica does it
    END IF;
    -- Partitions of that time are dropped: these are rows of transitions_other.
    WITH old AS (
        SELECT t.account_id, t.number, t.recorded_at
          FROM culvert.transitions t
         WHERE t.recorded_at < now() - (keep_days + 7) * interval '1 day'
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.transitions t
         USING old o
         WHERE t.account_id = o.account_id AND t.number = o.number AND t.recorded_at = o.recorded_at
           AND t.recorded_at < now() - (keep_days + 7) * interval '1 day'
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    FOR account IN SELECT a.account_id FROM culvert.accounts a ORDER BY a.account_id LOOP
        EXIT WHEN removed >= row_limit;
        SELECT t.number INTO newest_removed
          FROM culvert.transitions t
         WHERE t.account_id = account
         ORDER BY t.number DESC
        OFFSET account_max LIMIT 1;
        CONTINUE WHEN newest_removed IS NULL;
        WITH old AS (
            SELECT t.number, t.recorded_at
              FROM culvert.transitions t
             WHERE t.account_id = account AND t.number <= newest_removed
             ORDER BY t.number
             LIMIT row_limit - removed),
        gone AS (
            DELETE FROM culvert.transitions t
             USING old o
             WHERE t.account_id = account AND t.number = o.number AND t.recorded_at = o.recorded_at
            RETURNING 1)
        SELECT count(*) INTO here FROM gone;
        removed := removed + here;
    END LOOP;
    RETURN removed;
END
$$;

-- How many changes were merged since it was asked last, by any replica.
CREATE FUNCTION culvert.transitions_count_merged() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH now_merged AS (
        SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS total FROM culvert.transitions_merged s),
    counted AS (
        SELECT l.merged_counted FROM culvert.transition_limits l FOR UPDATE),
    written AS (
        UPDATE culvert.transition_limits l
           SET merged_counted = n.total
          FROM now_merged n, counted c
         WHERE n.total > c.merged_counted)
    SELECT greatest(n.total - c.merged_counted, 0) FROM now_merged n, counted c
$$;

-- What goes with a runtime, as in 0016, and its transitions.
GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    FOREACH function_name IN ARRAY ARRAY['transitions_trim(integer, bigint, integer)', 'transitions_count_merged()'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
END
$$;

CREATE FUNCTION culvert.runtime_transitions_go() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.transitions WHERE account_id = OLD.account_id AND runtime = OLD.runtime;
    RETURN NULL;
END
$$;
CREATE TRIGGER transitions_go AFTER DELETE ON culvert.runtimes
    FOR EACH ROW EXECUTE FUNCTION culvert.runtime_transitions_go();
DO $$
BEGIN
    REVOKE ALL ON FUNCTION culvert.runtime_transitions_go() FROM PUBLIC;
    ALTER FUNCTION culvert.runtime_transitions_go() OWNER TO culvert_lookup;
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
