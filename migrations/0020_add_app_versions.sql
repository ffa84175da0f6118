-- older-binaries: work
-- What an application's chart says of its version and of what it depends on, as Argo CD's event reporter read it from Git:
-- {appVersion, dependencies {lock, deps, requirements}}. NULL: nobody said.
ALTER TABLE culvert.applications ADD COLUMN app_versions jsonb;
