-- older-binaries: work
-- The resourceVersion of what was reported over HTTP, where it is a number: of words that carry no time of their own only
-- the object can say which is newer. On a deleted row it is the version that was deleted.
ALTER TABLE culvert.applications ADD COLUMN resource_version numeric(20, 0);
ALTER TABLE culvert.resources ADD COLUMN resource_version numeric(20, 0);
