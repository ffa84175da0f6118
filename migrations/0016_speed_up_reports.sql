-- older-binaries: work
-- What a report costs. Statements are planned while tables are empty and were never analyzed, and the plan stays with its
-- connection: an index that begins with account_id then looks as good for finding one row as the primary key, and reads
-- all that the account has. So an index for lists has a condition here that only lists name. Constraints whose
-- expressions are read anew for each statement, and keys that are looked up for each row although the transaction holds
-- what they stand for, cost more than the row itself.

-- ---- indexes -------------------------------------------------------------------------------------------------------

DROP INDEX culvert.image_uses_image;
CREATE INDEX image_uses_image ON culvert.image_uses (account_id, image) WHERE image <> '';
DROP INDEX culvert.deployments_newest;
CREATE INDEX deployments_newest ON culvert.deployments (account_id, filed_at) WHERE filed_at > '-infinity';
-- Nothing asks by these.
DROP INDEX culvert.resources_uid;
DROP INDEX culvert.manifests_touched;

-- ---- columns -------------------------------------------------------------------------------------------------------

-- Of the last report: whether it said anything new, which it answers with, and whether it named other images.
ALTER TABLE culvert.applications ADD COLUMN is_changed boolean NOT NULL DEFAULT true;
ALTER TABLE culvert.resources
    ADD COLUMN is_changed boolean NOT NULL DEFAULT true,
    ADD COLUMN has_new_images boolean NOT NULL DEFAULT true;

-- ---- constraints ---------------------------------------------------------------------------------------------------

-- Whoever writes maps what it is told to these words (storage/argo_status.h, report_*.c).
ALTER TABLE culvert.manifests DROP CONSTRAINT manifests_sha256_check, DROP CONSTRAINT manifests_encoding_check;
ALTER TABLE culvert.resources DROP CONSTRAINT resources_sync_status_check, DROP CONSTRAINT resources_health_status_check;
ALTER TABLE culvert.applications DROP CONSTRAINT applications_sync_status_check,
    DROP CONSTRAINT applications_health_status_check, DROP CONSTRAINT applications_sync_policy_check;
ALTER TABLE culvert.rollouts DROP CONSTRAINT rollouts_strategy_check;
ALTER TABLE culvert.analysis_runs DROP CONSTRAINT analysis_runs_phase_check;
ALTER TABLE culvert.workflows DROP CONSTRAINT workflows_phase_check;

-- A report's transaction holds its runtime's row (report_open), so that neither that nor the account can go before what
-- it writes is there to go with them. Manifests that nobody names are swept.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.conrelid::regclass AS relation, c.conname
          FROM pg_catalog.pg_constraint c
         WHERE c.contype = 'f' AND c.conparentid = 0
           AND c.conrelid IN ('culvert.manifests'::regclass, 'culvert.resources'::regclass, 'culvert.applications'::regclass,
                              'culvert.rollouts'::regclass, 'culvert.replica_sets'::regclass,
                              'culvert.analysis_runs'::regclass, 'culvert.image_uses'::regclass,
                              'culvert.deployments'::regclass, 'culvert.application_operations'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.relation, one.conname);
    END LOOP;
END
$$;
GRANT SELECT, DELETE ON culvert.rollouts, culvert.replica_sets, culvert.analysis_runs, culvert.image_uses TO culvert_lookup;
DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['rollouts', 'replica_sets', 'analysis_runs', 'image_uses'] LOOP
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR ALL TO culvert_lookup USING (true) WITH CHECK (false)', relation);
    END LOOP;
END
$$;

CREATE FUNCTION culvert.runtime_rows_go() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.resources WHERE account_id = OLD.account_id AND runtime = OLD.runtime;
    DELETE FROM culvert.applications WHERE account_id = OLD.account_id AND runtime = OLD.runtime;
    DELETE FROM culvert.deployments WHERE account_id = OLD.account_id AND runtime = OLD.runtime;
    DELETE FROM culvert.application_operations WHERE account_id = OLD.account_id AND runtime = OLD.runtime;
    RETURN NULL;
END
$$;
CREATE TRIGGER rows_go AFTER DELETE ON culvert.runtimes
    FOR EACH ROW EXECUTE FUNCTION culvert.runtime_rows_go();

CREATE FUNCTION culvert.resource_rows_go() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF OLD.api_group = 'argoproj.io' AND OLD.kind = 'Rollout' THEN
        DELETE FROM culvert.rollouts t
         WHERE t.account_id = OLD.account_id AND t.runtime = OLD.runtime AND t.cluster = OLD.cluster
           AND t.api_group = OLD.api_group AND t.kind = OLD.kind AND t.namespace = OLD.namespace AND t.name = OLD.name;
    ELSIF OLD.api_group = 'argoproj.io' AND OLD.kind = 'AnalysisRun' THEN
        DELETE FROM culvert.analysis_runs t
         WHERE t.account_id = OLD.account_id AND t.runtime = OLD.runtime AND t.cluster = OLD.cluster
           AND t.api_group = OLD.api_group AND t.kind = OLD.kind AND t.namespace = OLD.namespace AND t.name = OLD.name;
    ELSIF OLD.api_group = 'apps' AND OLD.kind = 'ReplicaSet' THEN
        DELETE FROM culvert.replica_sets t
         WHERE t.account_id = OLD.account_id AND t.runtime = OLD.runtime AND t.cluster = OLD.cluster
           AND t.api_group = OLD.api_group AND t.kind = OLD.kind AND t.namespace = OLD.namespace AND t.name = OLD.name;
    END IF;
    DELETE FROM culvert.image_uses t
     WHERE t.account_id = OLD.account_id AND t.runtime = OLD.runtime AND t.cluster = OLD.cluster
       AND t.api_group = OLD.api_group AND t.kind = OLD.kind AND t.namespace = OLD.namespace AND t.name = OLD.name;
    RETURN NULL;
END
$$;
CREATE TRIGGER rows_go AFTER DELETE ON culvert.resources
    FOR EACH ROW EXECUTE FUNCTION culvert.resource_rows_go();

-- ---- images that run -----------------------------------------------------------------------------------------------

-- The images of one workload, as its row has them now.
CREATE FUNCTION culvert.image_uses_set(owner culvert.resources) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.image_uses u
     WHERE u.account_id = owner.account_id AND u.runtime = owner.runtime AND u.cluster = owner.cluster
       AND u.api_group = owner.api_group AND u.kind = owner.kind AND u.namespace = owner.namespace
       AND u.name = owner.name AND NOT owner.images ? u.image;
    INSERT INTO culvert.image_uses AS t (account_id, runtime, cluster, api_group, kind, namespace, name, image, uid, since)
    SELECT owner.account_id, owner.runtime, owner.cluster, owner.api_group, owner.kind, owner.namespace, owner.name, i.image,
           owner.uid, owner.observed_at
      FROM jsonb_array_elements_text(owner.images) i (image)
    ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name, image) DO UPDATE
       SET uid = excluded.uid, since = excluded.since
     WHERE t.uid <> excluded.uid;
END
$$;

-- ---- the deployment ledger -----------------------------------------------------------------------------------------

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
CREATE OR REPLACE FUNCTION culvert.deployment_capture(account text, runtime_name text, app_namespace text, app_name text,
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
CREATE OR REPLACE FUNCTION culvert.deployments_add(account text, runtime_name text, app_namespace text, app_name text,
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
-- As it was, but for the condition that lets it go by deployments_newest.
CREATE OR REPLACE FUNCTION culvert.history_sweep(default_days integer, row_limit integer)
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

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY['runtime_rows_go()', 'resource_rows_go()'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    FOREACH function_name IN ARRAY ARRAY['deployment_live(text, text, text, text)', 'image_uses_set(culvert.resources)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
