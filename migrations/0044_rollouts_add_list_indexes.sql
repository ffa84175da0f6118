-- older-binaries: work
-- Lists of rollouts by name and by phase are read in their order; by runtime the primary key
-- serves.

CREATE INDEX rollouts_by_name ON culvert.rollouts (account_id, name, namespace, cluster, runtime);
CREATE INDEX rollouts_by_phase ON culvert.rollouts (account_id, phase, runtime, cluster, namespace, name);
