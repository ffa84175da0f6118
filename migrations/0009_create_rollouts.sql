-- older-binaries: work
-- The kinds of objects that people ask about by their own columns: rollouts, the replica sets that are their revisions,
-- analysis runs, workflows. Each row stands beside its object's row in resources, which alone says whether it is there,
-- since when and how fresh; it is written by the report that wrote that one, and goes with it.

CREATE TABLE culvert.rollouts (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL DEFAULT 'argoproj.io',
    kind text COLLATE "C" NOT NULL DEFAULT 'Rollout',
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    message text COLLATE "C",
    strategy text COLLATE "C" NOT NULL,
    revision bigint,
    desired_replicas bigint NOT NULL,
    revision_history_limit bigint NOT NULL,
    current_replicas bigint,
    ready_replicas bigint,
    available_replicas bigint,
    updated_replicas bigint,
    steps jsonb,                         -- as the spec has them
    current_step_index bigint,
    weight bigint NOT NULL,              -- of the newest revision, in percent
    is_aborted boolean NOT NULL,
    is_paused boolean NOT NULL,
    is_promote_full boolean NOT NULL,
    stable_service text COLLATE "C",     -- or the active one
    new_service text COLLATE "C",        -- canary or preview
    stable_hash text COLLATE "C",        -- pod-template-hash of the replica set
    current_hash text COLLATE "C",
    analysis jsonb NOT NULL DEFAULT '{}', -- step, background, prePromotion, postPromotion: name, status, message
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name)
) WITH (fillfactor = 80);

CREATE TABLE culvert.replica_sets (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL DEFAULT 'apps',
    kind text COLLATE "C" NOT NULL DEFAULT 'ReplicaSet',
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    owner_kind text COLLATE "C" NOT NULL, -- Rollout, Deployment; '' without one
    owner_name text COLLATE "C" NOT NULL,
    owner_uid text COLLATE "C" NOT NULL,
    revision bigint,
    pod_template_hash text COLLATE "C",
    desired_replicas bigint NOT NULL,
    current_replicas bigint,
    ready_replicas bigint,
    available_replicas bigint,
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name)
) WITH (fillfactor = 80);
CREATE INDEX replica_sets_owner ON culvert.replica_sets (account_id, runtime, cluster, namespace, owner_kind, owner_name);

CREATE TABLE culvert.analysis_runs (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL DEFAULT 'argoproj.io',
    kind text COLLATE "C" NOT NULL DEFAULT 'AnalysisRun',
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    owner_kind text COLLATE "C" NOT NULL,
    owner_name text COLLATE "C" NOT NULL,
    owner_uid text COLLATE "C" NOT NULL,
    revision bigint,
    run_type text COLLATE "C",           -- Step, Background, PrePromotion, PostPromotion
    step_index bigint,
    phase text COLLATE "C",
    message text COLLATE "C",
    started_at timestamptz,
    successful bigint NOT NULL,          -- measurements over all metrics
    failed bigint NOT NULL,
    inconclusive bigint NOT NULL,
    errored bigint NOT NULL,
    metrics jsonb NOT NULL DEFAULT '[]', -- one a metric: name, phase, message and its counts
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name)
) WITH (fillfactor = 80);
CREATE INDEX analysis_runs_owner ON culvert.analysis_runs (account_id, runtime, cluster, namespace, owner_kind, owner_name);

-- A workflow's row outlives its object, which Argo removes soon after it ended: it is the record of the run. So it has
-- all that is shown of it, and the uid is part of its name.
CREATE TABLE culvert.workflows (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,   -- of its API
    phase text COLLATE "C" NOT NULL,
    message text COLLATE "C",
    progress text COLLATE "C",
    started_at timestamptz,
    finished_at timestamptz,
    entrypoint text COLLATE "C",
    templates jsonb NOT NULL DEFAULT '[]', -- their names
    template_name text COLLATE "C",      -- of the WorkflowTemplate it was made from
    is_template_cluster_wide boolean NOT NULL DEFAULT false,
    initiator text COLLATE "C",
    pipeline_name text COLLATE "C",
    pipeline_namespace text COLLATE "C",
    pipeline_trigger text COLLATE "C",
    project text COLLATE "C",
    nodes jsonb NOT NULL DEFAULT '[]',   -- in the shape of the contract's NodeStatus, bounded
    conditions jsonb NOT NULL DEFAULT '[]',
    resources_duration jsonb,
    running_pods bigint NOT NULL DEFAULT 0,
    labels jsonb NOT NULL DEFAULT '{}',
    workflow_created_at timestamptz NOT NULL,
    manifest_sha256 bytea,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, cluster, namespace, name, uid),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX workflows_newest ON culvert.workflows (account_id, workflow_created_at, uid);
CREATE INDEX workflows_uid ON culvert.workflows (account_id, uid);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['rollouts', 'replica_sets', 'analysis_runs', 'workflows'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;

-- Whoever sweeps sees them.
GRANT SELECT ON culvert.rollouts, culvert.replica_sets, culvert.analysis_runs, culvert.workflows TO culvert_lookup;
GRANT DELETE ON culvert.rollouts, culvert.replica_sets, culvert.analysis_runs TO culvert_lookup;
CREATE POLICY lookup ON culvert.workflows FOR SELECT TO culvert_lookup USING (true);
DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['rollouts', 'replica_sets', 'analysis_runs'] LOOP
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR ALL TO culvert_lookup USING (true) WITH CHECK (false)', relation);
    END LOOP;
END
$$;

-- What was reported before has no such rows: without its hash it counts as changed, and is told again.
ALTER TABLE culvert.resources NO FORCE ROW LEVEL SECURITY;
UPDATE culvert.resources
   SET content_hash = NULL
 WHERE NOT is_deleted AND (api_group, kind) IN (('argoproj.io', 'Rollout'), ('argoproj.io', 'AnalysisRun'),
                                                ('argoproj.io', 'Workflow'), ('apps', 'ReplicaSet'));
ALTER TABLE culvert.resources FORCE ROW LEVEL SECURITY;
