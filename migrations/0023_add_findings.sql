-- older-binaries: work
-- What keeps a runtime's agent from reading its cluster, as the agent reports it with its own cluster: an array of
-- {"code", "level", "message", "suggestion"}. They are the runtime's errors while that session lasts.
ALTER TABLE culvert.clusters ADD COLUMN findings jsonb NOT NULL DEFAULT '[]';
