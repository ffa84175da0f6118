-- older-binaries: work
-- The deployment ledger, and how long history is kept. What was deployed, when, by whom, with which images and manifests:
-- every entry that an application's status.history ever held, kept after Argo CD forgot it (it remembers ten) and after
-- the application was deleted or made anew (uid tells its incarnations apart).
--
-- Kept by the month. An entry is filed under the time of its deployment, so that a repetition meets its like in one
-- partition; where that time is missing, before all that is kept, or ahead of every partition, it is filed under 1970.
-- Whether an entry is there already is asked by (uid, history_id) alone, and the transactions of one runtime follow each
-- other (report_positions), so it is there once whatever times its repetitions carry.
-- Older binaries go on writing application_history, which nobody reads any more.

CREATE TABLE culvert.deployments (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    history_id bigint NOT NULL,
    filed_at timestamptz NOT NULL,
    revision text COLLATE "C" NOT NULL,
    revisions jsonb,
    deployed_at timestamptz,
    deploy_started_at timestamptz,       -- that of its row in application_operations, which says how it ended
    initiator text COLLATE "C",
    is_automated boolean,
    sources jsonb,
    images jsonb,                        -- of the resources when it was the newest
    manifests_digest bytea,              -- and their manifests, in manifest_sets
    is_settled boolean NOT NULL DEFAULT true, -- its resources have had time to be reported
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, namespace, name, uid, history_id, filed_at)
) PARTITION BY RANGE (filed_at);
CREATE INDEX deployments_newest ON culvert.deployments (account_id, filed_at) WHERE filed_at > '-infinity';
CREATE INDEX deployments_unsettled ON culvert.deployments (recorded_at) WHERE NOT is_settled;

-- Manifests that were live together, named by the SHA-256 of what they are; several deployments may share one.
CREATE TABLE culvert.manifest_sets (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    objects jsonb NOT NULL,              -- [[group, kind, namespace, name, SHA-256 in hex], ...] in order
    sha256s bytea[] NOT NULL,            -- the blobs, in manifests
    touched_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, digest)
);

-- Why something was deployed: commits as reporters over HTTP tell of them.
CREATE TABLE culvert.commits (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    revision text COLLATE "C" NOT NULL,
    repo_url text COLLATE "C" NOT NULL,
    author text COLLATE "C",
    message text COLLATE "C",
    commit_date text COLLATE "C",        -- as it was told
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, revision, repo_url)
);

-- What of status.history is in the ledger already, so that most reports need not look there.
ALTER TABLE culvert.applications
    ADD COLUMN ledger_uid text COLLATE "C",
    ADD COLUMN ledger_ids bigint[];

ALTER TABLE culvert.application_operations RENAME TO application_operations_whole;
ALTER TABLE culvert.application_operations_whole RENAME CONSTRAINT application_operations_pkey TO application_operations_whole_pkey;
CREATE TABLE culvert.application_operations (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    phase text COLLATE "C" NOT NULL,
    message text COLLATE "C",
    revision text COLLATE "C",
    initiator text COLLATE "C",
    is_automated boolean,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, runtime, namespace, name, uid, started_at)
) PARTITION BY RANGE (started_at);
CREATE INDEX application_operations_started ON culvert.application_operations (account_id, started_at);

-- Which months there are: from oldest up to newest, without a gap; what is older has one partition for all.
CREATE TABLE culvert.ledger_bounds (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    oldest timestamptz NOT NULL,
    newest timestamptz NOT NULL
);
GRANT SELECT ON culvert.ledger_bounds TO culvert_app, culvert_lookup;

-- How long an account keeps its history; NULL: as long as the platform does by default. history_floor: what is older
-- has been removed, and is not taken in again.
ALTER TABLE culvert.accounts
    ADD COLUMN history_keep_days integer CHECK (history_keep_days BETWEEN 7 AND 36500),
    ADD COLUMN history_floor timestamptz NOT NULL DEFAULT '-infinity';

DO $$
DECLARE
    relation text;
    month timestamptz := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '12 months';
BEGIN
    FOREACH relation IN ARRAY ARRAY['deployments', 'application_operations'] LOOP
        EXECUTE format('CREATE TABLE culvert.%I PARTITION OF culvert.%I FOR VALUES FROM (MINVALUE) TO (%L)',
                       relation || '_before', relation, month);
    END LOOP;
    INSERT INTO culvert.ledger_bounds (oldest, newest) VALUES (month, month);
END
$$;

CREATE POLICY lookup_floor ON culvert.accounts FOR UPDATE TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT, UPDATE (history_floor) ON culvert.accounts TO culvert_lookup;
CREATE POLICY lookup_old ON culvert.workflows FOR DELETE TO culvert_lookup USING (true);
GRANT DELETE ON culvert.workflows TO culvert_lookup;

-- Whether nothing is filed in a span of time, for whoever may not see it.
CREATE FUNCTION culvert.ledger_is_empty(span_start timestamptz, span_end timestamptz) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT NOT EXISTS (SELECT FROM culvert.deployments WHERE filed_at >= span_start AND filed_at < span_end)
       AND NOT EXISTS (SELECT FROM culvert.application_operations WHERE started_at >= span_start AND started_at < span_end)
$$;

-- The point before which no account keeps anything.
CREATE FUNCTION culvert.ledger_floor() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(min(history_floor), '-infinity') FROM culvert.accounts
$$;

-- Makes the months up to two ahead, and drops the oldest one when no account keeps anything of its time and nothing is
-- filed there; returns how many were dropped. Nothing waits for locks: what is not to be had at once is left for the
-- next time, while reports go on. First the bound moves, then, in another transaction, the month goes: reports that
-- looked at the old bound have ended by the time the lock is had, and that the month is empty is asked under the lock.
CREATE FUNCTION culvert.ledger_partitions() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    bounds culvert.ledger_bounds%ROWTYPE;
    ahead timestamptz := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '3 months';
    relation text;
    name text;
    month timestamptz;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1131771507, 3) THEN
        RETURN 0; -- another replica is at it
    END IF;
    SELECT * INTO bounds FROM culvert.ledger_bounds;
    WHILE bounds.newest < ahead LOOP
        FOREACH relation IN ARRAY ARRAY['deployments', 'application_operations'] LOOP
            name := relation || to_char(bounds.newest AT TIME ZONE 'UTC', '_YYYYMM');
            EXECUTE format('CREATE TABLE culvert.%I (LIKE culvert.%I INCLUDING ALL)', name, relation);
            EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE culvert.%I ATTACH PARTITION culvert.%I FOR VALUES FROM (%L) TO (%L)', relation,
                           name, bounds.newest, (bounds.newest AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
        bounds.newest := (bounds.newest AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
        UPDATE culvert.ledger_bounds SET newest = bounds.newest;
    END LOOP;
    -- A month that lies before the bound: it was given up in an earlier call.
    SELECT max(make_timestamptz(left(right(c.relname, 6), 4)::integer, right(c.relname, 2)::integer, 1, 0, 0, 0, 'UTC'))
      INTO month
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'culvert.deployments'::regclass AND c.relname ~ '^deployments_[0-9]{6}$'
       AND right(c.relname, 6) < to_char(bounds.oldest AT TIME ZONE 'UTC', 'YYYYMM');
    IF month IS NOT NULL THEN
        LOCK TABLE culvert.deployments IN ACCESS EXCLUSIVE MODE;
        LOCK TABLE culvert.application_operations IN ACCESS EXCLUSIVE MODE;
        IF NOT culvert.ledger_is_empty(month, (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC') THEN
            RETURN 0; -- history_sweep moves or removes what is there
        END IF;
        FOREACH relation IN ARRAY ARRAY['deployments', 'application_operations'] LOOP
            EXECUTE format('DROP TABLE culvert.%I', relation || to_char(month AT TIME ZONE 'UTC', '_YYYYMM'));
        END LOOP;
        RETURN 1;
    END IF;
    month := (bounds.oldest AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    IF month <= least(culvert.ledger_floor(), now()) AND culvert.ledger_is_empty(bounds.oldest, month) THEN
        UPDATE culvert.ledger_bounds SET oldest = month;
    END IF;
    RETURN 0;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

-- What the resources of an application are made of now: their images, and the name of the set of their manifests, which
-- is kept. Nothing where there are none.
CREATE FUNCTION culvert.deployment_live(account text, runtime_name text, app_namespace text, app_name text,
                                        OUT images jsonb, OUT manifests_digest bytea)
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    live record;
BEGIN
    SELECT jsonb_agg(jsonb_build_array(r.api_group, r.kind, r.namespace, r.name, encode(r.sha256, 'hex'))
                     ORDER BY r.api_group, r.kind, r.namespace, r.name, r.cluster) AS objects,
           array_agg(DISTINCT r.sha256) AS sha256s
      INTO live
      FROM (SELECT o.*, coalesce(o.desired_sha256, o.manifest_sha256) AS sha256
              FROM culvert.resources o
             WHERE o.account_id = account AND o.runtime = runtime_name AND o.application_namespace = app_namespace
               AND o.application_name = app_name AND o.application_name <> '' AND NOT o.is_deleted AND o.owners = '[]'
               AND coalesce(o.desired_sha256, o.manifest_sha256) IS NOT NULL
             ORDER BY o.api_group, o.kind, o.namespace, o.name, o.cluster
             LIMIT 10000) r;
    IF live.objects IS NULL THEN
        RETURN;
    END IF;
    SELECT coalesce(jsonb_agg(i ORDER BY i), '[]')
      INTO images
      FROM (SELECT DISTINCT i
              FROM culvert.resources o, jsonb_array_elements_text(o.images) i
             WHERE o.account_id = account AND o.runtime = runtime_name AND o.application_namespace = app_namespace
               AND o.application_name = app_name AND o.application_name <> '' AND NOT o.is_deleted AND o.owners = '[]'
             ORDER BY i
             LIMIT 500) used;
    manifests_digest := sha256(convert_to(live.objects::text, 'UTF8'));
    INSERT INTO culvert.manifest_sets (account_id, digest, objects, sha256s)
    VALUES (account, manifests_digest, live.objects, live.sha256s)
    ON CONFLICT (account_id, digest) DO UPDATE SET touched_at = now();
END
$$;

-- Writes it to a deployment that is there.
CREATE FUNCTION culvert.deployment_capture(account text, runtime_name text, app_namespace text, app_name text,
                                           app_uid text, number bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    live record;
BEGIN
    SELECT * INTO live FROM culvert.deployment_live(account, runtime_name, app_namespace, app_name);
    UPDATE culvert.deployments d
       SET images = live.images, manifests_digest = live.manifests_digest
     WHERE live.manifests_digest IS NOT NULL AND d.account_id = account AND d.runtime = runtime_name
       AND d.namespace = app_namespace AND d.name = app_name AND d.uid = app_uid AND d.history_id = number;
END
$$;

-- Takes entries of status.history into the ledger; returns how many were new. The newest is what is live: its resources
-- are looked at now, and once more when they have had time to be reported (deployments_settle).
CREATE FUNCTION culvert.deployments_add(account text, runtime_name text, app_namespace text, app_name text,
                                        app_uid text, entries jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    bounds culvert.ledger_bounds%ROWTYPE;
    kept_from timestamptz;
    newest bigint;
    ids bigint[];
    known bigint[];
    added bigint := 0;
    live record;
BEGIN
    SELECT max(id), array_agg(id ORDER BY id) INTO newest, ids FROM jsonb_to_recordset(entries) AS h (id bigint);
    SELECT coalesce(array_agg(d.history_id), '{}')
      INTO known
      FROM culvert.deployments d
     WHERE d.account_id = account AND d.runtime = runtime_name AND d.namespace = app_namespace AND d.name = app_name
       AND d.uid = app_uid AND d.history_id = ANY (ids);
    IF NOT known @> ids THEN
        SELECT * INTO bounds FROM culvert.ledger_bounds;
        SELECT history_floor INTO kept_from FROM culvert.accounts WHERE account_id = account;
        SELECT NULL::jsonb AS images, NULL::bytea AS manifests_digest INTO live;
        IF NOT newest = ANY (known)
           AND EXISTS (SELECT FROM culvert.applications a
                        WHERE a.account_id = account AND a.runtime = runtime_name AND a.namespace = app_namespace
                          AND a.name = app_name AND a.uid = app_uid AND a.history_id = newest) THEN
            SELECT * INTO live FROM culvert.deployment_live(account, runtime_name, app_namespace, app_name);
        END IF;
        INSERT INTO culvert.deployments (account_id, runtime, namespace, name, uid, history_id, filed_at, revision,
                                         revisions, deployed_at, deploy_started_at, initiator, is_automated, sources,
                                         images, manifests_digest, is_settled)
        SELECT DISTINCT ON (h.id)
               account, runtime_name, app_namespace, app_name, app_uid, h.id,
               CASE WHEN h.deployed_at >= bounds.oldest AND h.deployed_at < bounds.newest
                    THEN h.deployed_at ELSE 'epoch' END,
               coalesce(nullif(h.revision, ''), h.revisions ->> 0, ''), h.revisions, h.deployed_at, h.deploy_started_at,
               h.initiator, h.automated, h.sources, CASE WHEN h.id = newest THEN live.images END,
               CASE WHEN h.id = newest THEN live.manifests_digest END, h.id < newest
          FROM ROWS FROM (jsonb_to_recordset(entries)
                          AS (id bigint, revision text, revisions jsonb, deployed_at timestamptz,
                              deploy_started_at timestamptz, initiator text, automated boolean, sources jsonb))
               WITH ORDINALITY AS h (id, revision, revisions, deployed_at, deploy_started_at, initiator, automated,
                                     sources, place)
         WHERE NOT h.id = ANY (known) AND NOT coalesce(h.id < newest AND h.deployed_at < kept_from, false)
         ORDER BY h.id, h.place;
        GET DIAGNOSTICS added = ROW_COUNT;
    END IF;
    UPDATE culvert.applications a
       SET ledger_uid = app_uid, ledger_ids = ids
     WHERE a.account_id = account AND a.runtime = runtime_name AND a.namespace = app_namespace AND a.name = app_name;
    RETURN added;
END
$$;

-- Looks again at the resources of deployments that are half a minute old and still live; all accounts. Returns how many
-- were looked at.
CREATE FUNCTION culvert.deployments_settle(row_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    d record;
    settled bigint := 0;
BEGIN
    FOR d IN
        SELECT * FROM culvert.deployments
         WHERE NOT is_settled AND recorded_at < now() - interval '30 seconds'
         ORDER BY recorded_at
         LIMIT row_limit
           FOR UPDATE SKIP LOCKED
    LOOP
        IF EXISTS (SELECT FROM culvert.applications a
                    WHERE a.account_id = d.account_id AND a.runtime = d.runtime AND a.namespace = d.namespace
                      AND a.name = d.name AND a.uid = d.uid AND a.history_id = d.history_id AND NOT a.is_deleted) THEN
            PERFORM culvert.deployment_capture(d.account_id, d.runtime, d.namespace, d.name, d.uid, d.history_id);
        END IF;
        UPDATE culvert.deployments u
           SET is_settled = true
         WHERE u.account_id = d.account_id AND u.runtime = d.runtime AND u.namespace = d.namespace AND u.name = d.name
           AND u.uid = d.uid AND u.history_id = d.history_id AND u.filed_at = d.filed_at;
        settled := settled + 1;
    END LOOP;
    RETURN settled;
END
$$;

-- Removes what accounts do not keep any longer, a bounded number of rows of each kind, all accounts. What an application
-- runs now stays in the ledger however old it is, but moves out of the months, so that these can go.
CREATE FUNCTION culvert.history_sweep(default_days integer, row_limit integer)
RETURNS TABLE (kind text, removed bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    common timestamptz;
BEGIN
    IF default_days < 7 THEN
        RAISE EXCEPTION 'history is kept for at least 7 days' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 4) THEN
        RETURN; -- another replica is at it
    END IF;
    UPDATE culvert.accounts a
       SET history_floor = now() - coalesce(a.history_keep_days, default_days) * interval '1 day'
     WHERE a.history_floor + coalesce(a.history_keep_days, default_days) * interval '1 day'
           NOT BETWEEN now() - interval '1 hour' AND now();
    SELECT min(history_floor) INTO common FROM culvert.accounts;

    kind := 'deployments';
    WITH old AS (
        SELECT d.account_id, d.runtime, d.namespace, d.name, d.uid, d.history_id, d.filed_at
          FROM culvert.accounts c
          JOIN culvert.deployments d
            ON d.account_id = c.account_id AND d.filed_at > '-infinity' AND d.filed_at < c.history_floor
          LEFT JOIN culvert.applications a
                 ON a.account_id = d.account_id AND a.runtime = d.runtime AND a.namespace = d.namespace
                AND a.name = d.name AND a.uid = d.uid AND a.history_id = d.history_id AND NOT a.is_deleted
         WHERE a.name IS NULL
           AND least(d.deployed_at, d.recorded_at) < c.history_floor
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.deployments d
         USING old o
         WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace AND d.name = o.name
           AND d.uid = o.uid AND d.history_id = o.history_id AND d.filed_at = o.filed_at
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN NEXT;

    UPDATE culvert.deployments d
       SET filed_at = 'epoch'
      FROM (SELECT m.account_id, m.runtime, m.namespace, m.name, m.uid, m.history_id, m.filed_at
              FROM culvert.deployments m
             WHERE m.filed_at < common AND m.filed_at >= (SELECT oldest FROM culvert.ledger_bounds) - interval '1 month'
               AND m.filed_at > 'epoch'
             LIMIT row_limit) o
     WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace AND d.name = o.name
       AND d.uid = o.uid AND d.history_id = o.history_id AND d.filed_at = o.filed_at;

    kind := 'operations';
    WITH old AS (
        SELECT d.account_id, d.runtime, d.namespace, d.name, d.uid, d.started_at
          FROM culvert.accounts c
          JOIN culvert.application_operations d ON d.account_id = c.account_id AND d.started_at < c.history_floor
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.application_operations d
         USING old o
         WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace AND d.name = o.name
           AND d.uid = o.uid AND d.started_at = o.started_at
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN NEXT;

    kind := 'workflows';
    WITH old AS (
        SELECT w.account_id, w.runtime, w.cluster, w.namespace, w.name, w.uid
          FROM culvert.accounts c
          JOIN culvert.workflows w ON w.account_id = c.account_id AND w.workflow_created_at < c.history_floor
          LEFT JOIN culvert.resources r
                 ON r.account_id = w.account_id AND r.runtime = w.runtime AND r.cluster = w.cluster
                AND r.api_group = 'argoproj.io' AND r.kind = 'Workflow' AND r.namespace = w.namespace
                AND r.name = w.name AND r.uid = w.uid AND NOT r.is_deleted
         WHERE r.name IS NULL
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.workflows w
         USING old o
         WHERE w.account_id = o.account_id AND w.runtime = o.runtime AND w.cluster = o.cluster
           AND w.namespace = o.namespace AND w.name = o.name AND w.uid = o.uid
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN NEXT;

    kind := 'commits';
    WITH old AS (
        SELECT k.account_id, k.revision, k.repo_url
          FROM culvert.commits k
          JOIN culvert.accounts c ON c.account_id = k.account_id
         WHERE k.last_seen_at < c.history_floor
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.commits k
         USING old o
         WHERE k.account_id = o.account_id AND k.revision = o.revision AND k.repo_url = o.repo_url
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN NEXT;

    kind := 'manifest_sets';
    WITH old AS (
        SELECT s.account_id, s.digest
          FROM culvert.manifest_sets s
         WHERE s.touched_at < now() - interval '1 hour'
           AND NOT EXISTS (SELECT FROM culvert.deployments d
                            WHERE d.account_id = s.account_id AND d.manifests_digest = s.digest)
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.manifest_sets s
         USING old o
         WHERE s.account_id = o.account_id AND s.digest = o.digest AND s.touched_at < now() - interval '1 hour'
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN NEXT;
END
$$;

-- What was there before. Two entries with one (uid, history_id) cannot be: that was the old key.
ALTER TABLE culvert.application_history NO FORCE ROW LEVEL SECURITY;
ALTER TABLE culvert.application_operations_whole NO FORCE ROW LEVEL SECURITY;
SELECT culvert.ledger_partitions();
INSERT INTO culvert.deployments (account_id, runtime, namespace, name, uid, history_id, filed_at, revision, revisions,
                                 deployed_at, deploy_started_at, initiator, is_automated, sources, recorded_at)
SELECT h.account_id, h.runtime, h.namespace, h.name, h.uid, h.history_id,
       CASE WHEN h.deployed_at >= b.oldest AND h.deployed_at < b.newest THEN h.deployed_at ELSE 'epoch' END, h.revision,
       h.revisions, h.deployed_at, h.deploy_started_at, h.initiator, h.is_automated, h.sources, h.recorded_at
  FROM culvert.application_history h, culvert.ledger_bounds b;
INSERT INTO culvert.application_operations
SELECT o.* FROM culvert.application_operations_whole o, culvert.ledger_bounds b WHERE o.started_at < b.newest;
DROP TABLE culvert.application_operations_whole;
TRUNCATE culvert.application_history;
ALTER TABLE culvert.application_history FORCE ROW LEVEL SECURITY;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['deployments', 'application_operations', 'manifest_sets', 'commits'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR ALL TO culvert_lookup USING (true) WITH CHECK (true)', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_lookup', relation);
        IF relation IN ('deployments', 'application_operations') THEN
            EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation || '_before');
            EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation || '_before');
        END IF;
    END LOOP;
END
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
    FOREACH function_name IN ARRAY ARRAY['ledger_is_empty(timestamptz, timestamptz)', 'ledger_floor()',
                                         'deployments_settle(integer)', 'history_sweep(integer, integer)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, %I', function_name, current_user);
    END LOOP;
    FOREACH function_name IN ARRAY ARRAY['deployment_live(text, text, text, text)',
                                         'deployment_capture(text, text, text, text, text, bigint)',
                                         'deployments_add(text, text, text, text, text, jsonb)',
                                         'ledger_partitions()'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
