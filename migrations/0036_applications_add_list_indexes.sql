-- older-binaries: work
-- Lists of applications go by other orders than the name, and choose by runtime, project and state: each index ends with
-- the list's key, so that a page is read from it in order.

-- The worst first. NULL is an application whose health Argo CD has not assessed.
CREATE FUNCTION culvert.health_rank(health_status text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE health_status WHEN 'DEGRADED' THEN 0 WHEN 'MISSING' THEN 1 WHEN 'TERMINATED' THEN 2 WHEN 'UNKNOWN' THEN 3
                              WHEN 'PROGRESSING' THEN 5 WHEN 'SUSPENDED' THEN 6 WHEN 'HEALTHY' THEN 7 ELSE 4 END
$$;
GRANT EXECUTE ON FUNCTION culvert.health_rank(text) TO culvert_app;

CREATE INDEX applications_by_runtime ON culvert.applications (account_id, runtime, name, namespace) WHERE NOT is_deleted;
CREATE INDEX applications_by_project ON culvert.applications (account_id, project, name, runtime, namespace)
    WHERE NOT is_deleted;
CREATE INDEX applications_by_severity ON culvert.applications
    (account_id, culvert.health_rank(health_status), name, runtime, namespace) WHERE NOT is_deleted;
-- A CASE, because row-level security keeps a condition with coalesce() from an index.
CREATE INDEX applications_by_health ON culvert.applications
    (account_id, (CASE WHEN health_status IS NULL THEN 'UNKNOWN' ELSE health_status END), name, runtime, namespace)
    WHERE NOT is_deleted;
CREATE INDEX applications_by_sync ON culvert.applications (account_id, sync_status, name, runtime, namespace)
    WHERE NOT is_deleted;
