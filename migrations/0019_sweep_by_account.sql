-- older-binaries: work
-- Housekeeping that ends, however much there is: each step looks at one account or at one kind of rows, is a transaction
-- of its own, and finds what it looks for by an index where that costs reports nothing. Such an index has a condition or
-- columns that change when a row is deleted, and only then: any column of an index that an update changes makes that
-- update write to all indexes of the table.

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
END
$$;

-- ---- indexes -------------------------------------------------------------------------------------------------------

CREATE INDEX applications_gone ON culvert.applications (account_id, runtime) WHERE is_deleted;
CREATE INDEX resources_gone ON culvert.resources (account_id, runtime) WHERE is_deleted;
-- Which deployment names a set of manifests.
CREATE INDEX deployments_manifests ON culvert.deployments (account_id, manifests_digest)
    WHERE manifests_digest IS NOT NULL;
-- A commit's time changes once a day. The condition is one that looking for one commit does not name (migrations/0016).
CREATE INDEX commits_seen ON culvert.commits (account_id, last_seen_at) WHERE last_seen_at > '-infinity';

-- ---- what is swept -------------------------------------------------------------------------------------------------

-- What deleted rows were kept for ends after a week. All accounts; up to row_limit of each table. Returns how many went.
CREATE FUNCTION culvert.tombstones_sweep(row_limit integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    more bigint;
    removed bigint := 0;
BEGIN
    DELETE FROM culvert.applications
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.applications
                              WHERE is_deleted AND received_at < now() - interval '7 days'
                              LIMIT row_limit))
       AND is_deleted AND received_at < now() - interval '7 days';
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM culvert.resources
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.resources
                              WHERE is_deleted AND received_at < now() - interval '7 days'
                              LIMIT row_limit))
       AND is_deleted AND received_at < now() - interval '7 days';
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN removed + more;
END
$$;

-- Manifests that nothing names any more, of the first account that is not before `holder`: that account's rows are read
-- once for each half a million of its manifests, which are taken by slices of their names. Answers how many went, and
-- where to go on: no account when that was the last one. A report or a set that names a manifest touches it, so that it
-- is never both an hour old and about to be referred to.
CREATE FUNCTION culvert.manifests_sweep(INOUT holder text, INOUT slice integer, row_limit integer, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan SET work_mem = '32MB' AS $$
DECLARE
    asked text COLLATE "C" := holder;
    account text COLLATE "C";
    slices integer;
    low bytea;
    high bytea;
BEGIN
    removed := 0;
    SELECT min(m.account_id) INTO account FROM culvert.manifests m WHERE m.account_id >= asked;
    holder := account;
    IF account IS NULL THEN
        RETURN;
    END IF;
    IF account <> asked AND asked <> '' THEN
        slice := 0;
    END IF;
    SELECT 1 + count(*) / 500000 INTO slices
      FROM (SELECT FROM culvert.manifests m WHERE m.account_id = account LIMIT 50000000) counted;
    IF slice >= slices THEN -- there were more, or that one was given up
        slice := 0;
        SELECT min(m.account_id) INTO holder FROM culvert.manifests m WHERE m.account_id > account;
        RETURN;
    END IF;
    low := decode(lpad(to_hex(slice * 65536 / slices), 4, '0'), 'hex');
    high := CASE WHEN slice + 1 >= slices THEN decode(repeat('ff', 33), 'hex')
            ELSE decode(lpad(to_hex((slice + 1) * 65536 / slices), 4, '0'), 'hex') END;
    WITH old AS MATERIALIZED (
        SELECT m.sha256
          FROM culvert.manifests m
         WHERE m.account_id = account AND m.sha256 >= low AND m.sha256 < high
           AND m.touched_at < now() - interval '1 hour'),
    used AS (
        SELECT u.sha256
          FROM culvert.applications a
         CROSS JOIN LATERAL (VALUES (a.manifest_sha256), (a.desired_sha256), (a.git_sha256)) u (sha256)
         WHERE a.account_id = account AND u.sha256 >= low AND u.sha256 < high
        UNION ALL
        SELECT u.sha256
          FROM culvert.resources r
         CROSS JOIN LATERAL (VALUES (r.manifest_sha256), (r.desired_sha256), (r.git_sha256)) u (sha256)
         WHERE r.account_id = account AND u.sha256 >= low AND u.sha256 < high
        UNION ALL
        SELECT w.manifest_sha256
          FROM culvert.workflows w
         WHERE w.account_id = account AND w.manifest_sha256 >= low AND w.manifest_sha256 < high
        UNION ALL
        SELECT u.sha256
          FROM culvert.manifest_sets s
         CROSS JOIN LATERAL unnest(s.sha256s) u (sha256)
         WHERE s.account_id = account AND u.sha256 >= low AND u.sha256 < high),
    unused AS (
        SELECT o.sha256
          FROM old o
          LEFT JOIN used u ON u.sha256 = o.sha256
         WHERE u.sha256 IS NULL
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.manifests m
         USING unused u
         WHERE m.account_id = account AND m.sha256 = u.sha256 AND m.touched_at < now() - interval '1 hour'
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    IF removed >= row_limit THEN
        RETURN; -- there may be more in this slice
    END IF;
    slice := slice + 1;
    IF slice >= slices THEN
        slice := 0;
        SELECT min(m.account_id) INTO holder FROM culvert.manifests m WHERE m.account_id > account;
    END IF;
END
$$;

-- Removes up to row_limit rows of one kind that accounts do not keep any longer, all accounts. Returns how many. What an
-- application runs now stays in the ledger however old it is, but moves out of the months, so that these can go.
CREATE FUNCTION culvert.history_sweep(kind text, default_days integer, row_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    common timestamptz;
    removed bigint := 0;
BEGIN
    IF default_days < 7 THEN
        RAISE EXCEPTION 'history is kept for at least 7 days' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 4) THEN
        RETURN 0; -- another replica is at it
    END IF;
    UPDATE culvert.accounts a
       SET history_floor = now() - coalesce(a.history_keep_days, default_days) * interval '1 day'
     WHERE a.history_floor + coalesce(a.history_keep_days, default_days) * interval '1 day'
           NOT BETWEEN now() - interval '1 hour' AND now();
    CASE kind
    WHEN 'deployments' THEN
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
             WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace
               AND d.name = o.name AND d.uid = o.uid AND d.history_id = o.history_id AND d.filed_at = o.filed_at
            RETURNING 1)
        SELECT count(*) INTO removed FROM gone;
    WHEN 'kept_deployments' THEN
        SELECT min(history_floor) INTO common FROM culvert.accounts;
        UPDATE culvert.deployments d
           SET filed_at = 'epoch'
          FROM (SELECT m.account_id, m.runtime, m.namespace, m.name, m.uid, m.history_id, m.filed_at
                  FROM culvert.deployments m
                 WHERE m.filed_at < common
                   AND m.filed_at >= (SELECT oldest FROM culvert.ledger_bounds) - interval '1 month'
                   AND m.filed_at > 'epoch'
                 LIMIT row_limit) o
         WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace AND d.name = o.name
           AND d.uid = o.uid AND d.history_id = o.history_id AND d.filed_at = o.filed_at;
        GET DIAGNOSTICS removed = ROW_COUNT;
    WHEN 'operations' THEN
        WITH old AS (
            SELECT d.account_id, d.runtime, d.namespace, d.name, d.uid, d.started_at
              FROM culvert.accounts c
              JOIN culvert.application_operations d ON d.account_id = c.account_id AND d.started_at < c.history_floor
             LIMIT row_limit),
        gone AS (
            DELETE FROM culvert.application_operations d
             USING old o
             WHERE d.account_id = o.account_id AND d.runtime = o.runtime AND d.namespace = o.namespace
               AND d.name = o.name AND d.uid = o.uid AND d.started_at = o.started_at
            RETURNING 1)
        SELECT count(*) INTO removed FROM gone;
    WHEN 'workflows' THEN
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
    WHEN 'commits' THEN
        WITH old AS (
            SELECT k.account_id, k.revision, k.repo_url
              FROM culvert.accounts c
              JOIN culvert.commits k
                ON k.account_id = c.account_id AND k.last_seen_at > '-infinity' AND k.last_seen_at < c.history_floor
             LIMIT row_limit),
        gone AS (
            DELETE FROM culvert.commits k
             USING old o
             WHERE k.account_id = o.account_id AND k.revision = o.revision AND k.repo_url = o.repo_url
            RETURNING 1)
        SELECT count(*) INTO removed FROM gone;
    WHEN 'manifest_sets' THEN
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
    END CASE;
    RETURN removed;
END
$$;

-- ---- what the ledger names stays -----------------------------------------------------------------------------------

-- What the resources of an application are made of now: their images, and the name of the set of their manifests, which
-- is kept. Nothing where there are none. The manifests are touched and held, so that none is swept before the set that
-- names it is there to be seen; one that was swept meanwhile, because its row has moved on, makes it look again. Sets of
-- one account are written by one transaction at a time: who writes several never waits for another in a circle.
CREATE OR REPLACE FUNCTION culvert.deployment_live(account text, runtime_name text, app_namespace text, app_name text,
                                                   OUT images jsonb, OUT manifests_digest bytea)
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    live record;
    held bigint;
BEGIN
    FOR try IN 1..3 LOOP
        SELECT jsonb_agg(jsonb_build_array(r.api_group, r.kind, r.namespace, r.name, encode(r.sha256, 'hex'))
                         ORDER BY r.api_group, r.kind, r.namespace, r.name, r.cluster) AS objects,
               array_agg(DISTINCT r.sha256) AS sha256s
          INTO live
          FROM (SELECT o.*, coalesce(o.desired_sha256, o.manifest_sha256) AS sha256
                  FROM culvert.resources o
                 WHERE o.account_id = account AND o.runtime = runtime_name AND o.application_namespace = app_namespace
                   AND o.application_name = app_name AND o.application_name <> '' AND NOT o.is_deleted
                   AND o.owners = '[]' AND coalesce(o.desired_sha256, o.manifest_sha256) IS NOT NULL
                 ORDER BY o.api_group, o.kind, o.namespace, o.name, o.cluster
                 LIMIT 10000) r;
        IF live.objects IS NULL THEN
            RETURN;
        END IF;
        -- Whoever else writes to one of them touches it.
        UPDATE culvert.manifests m
           SET touched_at = now()
          FROM (SELECT t.sha256
                  FROM culvert.manifests t
                 WHERE t.account_id = account AND t.sha256 = ANY (live.sha256s)
                   AND t.touched_at < now() - interval '30 minutes'
                   FOR NO KEY UPDATE SKIP LOCKED) old
         WHERE m.account_id = account AND m.sha256 = old.sha256;
        SELECT count(*) INTO held
          FROM (SELECT FROM culvert.manifests t
                 WHERE t.account_id = account AND t.sha256 = ANY (live.sha256s)
                   FOR KEY SHARE) all_of_them;
        EXIT WHEN held = cardinality(live.sha256s);
        live.objects := NULL;
    END LOOP;
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
    PERFORM pg_advisory_xact_lock(1131771508, hashtext(account));
    INSERT INTO culvert.manifest_sets (account_id, digest, objects, sha256s)
    VALUES (account, manifests_digest, live.objects, live.sha256s)
    ON CONFLICT (account_id, digest) DO UPDATE SET touched_at = now();
END
$$;

-- Looks again at the resources of deployments that are half a minute old and still live; all accounts, one after the
-- other. Returns how many were looked at; where somebody is writing sets at the time it looks later.
CREATE OR REPLACE FUNCTION culvert.deployments_settle(row_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    d record;
    settled bigint := 0;
BEGIN
    FOR d IN
        SELECT * FROM (
            SELECT * FROM culvert.deployments
             WHERE NOT is_settled AND recorded_at < now() - interval '30 seconds'
             ORDER BY recorded_at
             LIMIT row_limit
               FOR UPDATE SKIP LOCKED) due
         ORDER BY account_id, recorded_at
    LOOP
        BEGIN
            IF EXISTS (SELECT FROM culvert.applications a
                        WHERE a.account_id = d.account_id AND a.runtime = d.runtime AND a.namespace = d.namespace
                          AND a.name = d.name AND a.uid = d.uid AND a.history_id = d.history_id
                          AND NOT a.is_deleted) THEN
                PERFORM culvert.deployment_capture(d.account_id, d.runtime, d.namespace, d.name, d.uid, d.history_id);
            END IF;
            UPDATE culvert.deployments u
               SET is_settled = true
             WHERE u.account_id = d.account_id AND u.runtime = d.runtime AND u.namespace = d.namespace
               AND u.name = d.name AND u.uid = d.uid AND u.history_id = d.history_id AND u.filed_at = d.filed_at;
            settled := settled + 1;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    RETURN settled;
END
$$;

GRANT UPDATE (touched_at) ON culvert.manifests TO culvert_lookup;
ALTER POLICY lookup ON culvert.manifests WITH CHECK (true);

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY['tombstones_sweep(integer)', 'manifests_sweep(text, integer, integer)',
                                         'history_sweep(text, integer, integer)'] LOOP
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
