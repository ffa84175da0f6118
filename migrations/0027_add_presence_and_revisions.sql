-- older-binaries: work
-- Of an application: the ApplicationSet that made it; what its last operation synced, where it has several sources, and
-- the revisions that changed it, where Argo CD says so; how large its manifest is.
ALTER TABLE culvert.applications
    ADD COLUMN application_set text COLLATE "C",
    ADD COLUMN application_set_uid text COLLATE "C",
    ADD COLUMN operation_revisions jsonb,
    ADD COLUMN change_revisions jsonb,
    ADD COLUMN manifest_bytes integer;
CREATE INDEX applications_set ON culvert.applications (account_id, runtime, application_set_uid)
    WHERE application_set_uid IS NOT NULL;
