-- older-binaries: work
-- Blobs that nothing refers to are looked for in slices of their names, a sixteenth each, so that no step needs more
-- memory or time than an installation of millions of objects has for it.

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

-- All accounts. Slices count from 0 to 15; with the first go tombstones that are a week old. Returns how many manifests
-- went; as many as row_limit means that there may be more in this slice. A report that names a manifest touches it, so
-- that it is never both an hour old and about to be referred to.
CREATE FUNCTION culvert.reports_sweep(row_limit integer, slice integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms'
SET plan_cache_mode = force_custom_plan SET work_mem = '32MB' AS $$
DECLARE
    low bytea := decode(lpad(to_hex(slice * 16), 2, '0'), 'hex');
    high bytea := CASE WHEN slice = 15 THEN decode(repeat('ff', 33), 'hex')
                  ELSE decode(lpad(to_hex(slice * 16 + 16), 2, '0'), 'hex') END;
    removed bigint;
BEGIN
    IF slice = 0 THEN
        DELETE FROM culvert.applications
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.applications
                                  WHERE is_deleted AND received_at < now() - interval '7 days'
                                  LIMIT row_limit))
           AND is_deleted AND received_at < now() - interval '7 days';
        DELETE FROM culvert.resources
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.resources
                                  WHERE is_deleted AND received_at < now() - interval '7 days'
                                  LIMIT row_limit))
           AND is_deleted AND received_at < now() - interval '7 days';
    END IF;
    WITH RECURSIVE holders AS ( -- accounts, also those that are gone, one step of the index each
        SELECT min(account_id) AS account_id FROM culvert.manifests
        UNION ALL
        SELECT (SELECT min(m.account_id) FROM culvert.manifests m WHERE m.account_id > h.account_id)
          FROM holders h
         WHERE h.account_id IS NOT NULL),
    old AS MATERIALIZED (
        SELECT m.account_id, m.sha256
          FROM holders h
          JOIN culvert.manifests m ON m.account_id = h.account_id AND m.sha256 >= low AND m.sha256 < high
         WHERE m.touched_at < now() - interval '1 hour'),
    used AS (
        SELECT a.account_id, u.sha256
          FROM culvert.applications a
         CROSS JOIN LATERAL (VALUES (a.manifest_sha256), (a.desired_sha256), (a.git_sha256)) u (sha256)
         WHERE u.sha256 >= low AND u.sha256 < high
        UNION ALL
        SELECT r.account_id, u.sha256
          FROM culvert.resources r
         CROSS JOIN LATERAL (VALUES (r.manifest_sha256), (r.desired_sha256), (r.git_sha256)) u (sha256)
         WHERE u.sha256 >= low AND u.sha256 < high
        UNION ALL
        SELECT w.account_id, w.manifest_sha256
          FROM culvert.workflows w
         WHERE w.manifest_sha256 >= low AND w.manifest_sha256 < high
        UNION ALL
        SELECT s.account_id, u.sha256
          FROM culvert.manifest_sets s
         CROSS JOIN LATERAL unnest(s.sha256s) u (sha256)
         WHERE u.sha256 >= low AND u.sha256 < high),
    unused AS (
        SELECT o.account_id, o.sha256
          FROM old o
          LEFT JOIN used u ON u.account_id = o.account_id AND u.sha256 = o.sha256
         WHERE u.sha256 IS NULL
         LIMIT row_limit),
    gone AS (
        DELETE FROM culvert.manifests m
         USING unused u
         WHERE m.account_id = u.account_id AND m.sha256 = u.sha256 AND m.touched_at < now() - interval '1 hour'
        RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    RETURN removed;
END
$$;

-- Binaries that know of no slices, nor of what else refers to blobs by now, take one at random.
CREATE OR REPLACE FUNCTION culvert.reports_sweep(row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT culvert.reports_sweep(row_limit, floor(random() * 16)::integer)
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    REVOKE ALL ON FUNCTION culvert.reports_sweep(integer, integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.reports_sweep(integer, integer) TO culvert_app;
    ALTER FUNCTION culvert.reports_sweep(integer, integer) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
