-- older-binaries: work
-- What a report costs. Statements are planned while tables are empty and were never analyzed, and the plan stays with its
-- connection: an index that begins with account_id then looks as good for finding one row as the primary key, and reads
-- all that the account has. So an index for lists has a condition here that only lists name. Constraints whose
-- expressions are read anew for each statement, and keys that are looked up for each row although the transaction holds
-- what they stand for, cost more than the row itself.

-- ---- indexes -------------------------------------------------------------------------------------------------------

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
           AND c.conrelid IN ('culvert.manifests'::regclass, 'culvert.resources'::regclass, 'culvert.applications'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.relation, one.conname);
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

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    FOREACH function_name IN ARRAY ARRAY['runtime_rows_go()', 'resource_rows_go()'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
