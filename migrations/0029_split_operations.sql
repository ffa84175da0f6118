-- older-binaries: work
-- Operations that begin in the same second are rows of their own. Argo CD's times are whole
-- seconds, so started_at alone does not tell them apart: what was asked for does
-- (modules/deployments/report_deployment.sql). Older binaries leave these columns empty, and such a row is
-- taken for whatever operation began then.
ALTER TABLE culvert.application_operations
    ADD COLUMN request bytea,            -- SHA-256: by whom, revision, resources, prune, dry run
    ADD COLUMN is_dry_run boolean,       -- it changed nothing
    ADD COLUMN is_partial boolean;       -- it synced some of the application's resources only
