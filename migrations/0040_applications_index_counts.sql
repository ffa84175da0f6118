-- older-binaries: work
-- Totals, fences and facets of applications are counted from an index alone: it holds the list's
-- key and what is counted by most, of the applications that lists show without filters.

CREATE INDEX applications_counted ON culvert.applications (account_id, name, runtime, namespace)
    INCLUDE (health_status, sync_status, operation_phase, sync_policy, project)
    WHERE NOT is_deleted AND coalesce(labels ->> 'codefresh.io/entity', '') <> 'component';
