-- older-binaries: work
-- Takes away what nothing refers to any more: manifests whose rows moved on, and tombstones that are a week old.

GRANT SELECT, DELETE ON culvert.manifests, culvert.applications, culvert.resources TO culvert_lookup;
CREATE POLICY lookup ON culvert.manifests FOR ALL TO culvert_lookup USING (true) WITH CHECK (false);
CREATE POLICY lookup ON culvert.applications FOR ALL TO culvert_lookup USING (true) WITH CHECK (false);
CREATE POLICY lookup ON culvert.resources FOR ALL TO culvert_lookup USING (true) WITH CHECK (false);

-- All accounts. Returns how many manifests went; as many as row_limit means that there may be more. A report that
-- names a manifest touches it, so that it is never both an hour old and about to be referred to.
CREATE FUNCTION culvert.reports_sweep(row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    DELETE FROM culvert.applications WHERE is_deleted AND received_at < now() - interval '7 days';
    DELETE FROM culvert.resources WHERE is_deleted AND received_at < now() - interval '7 days';
    WITH used AS (
        SELECT account_id, unnest(ARRAY[manifest_sha256, desired_sha256, git_sha256]) AS sha256
          FROM culvert.applications
        UNION
        SELECT account_id, unnest(ARRAY[manifest_sha256, desired_sha256, git_sha256])
          FROM culvert.resources),
    unused AS (
        SELECT m.account_id, m.sha256
          FROM culvert.manifests m
          LEFT JOIN used u ON u.account_id = m.account_id AND u.sha256 = m.sha256
         WHERE m.touched_at < now() - interval '1 hour' AND u.sha256 IS NULL
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.manifests m
         USING unused u
         WHERE m.account_id = u.account_id AND m.sha256 = u.sha256 AND m.touched_at < now() - interval '1 hour'
        RETURNING 1)
    SELECT count(*) FROM gone
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    REVOKE ALL ON FUNCTION culvert.reports_sweep(integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.reports_sweep(integer) TO culvert_app;
    ALTER FUNCTION culvert.reports_sweep(integer) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
