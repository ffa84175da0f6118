-- older-binaries: stop
-- What clusters reported: rows, not documents. A row carries where it came from (epoch, sequence) and yields only to
-- something newer; a deleted object stays as a tombstone, so that a late repetition cannot bring it back.

-- Manifests, compressed and named by the SHA-256 of their plain text: shared by rows and history of one account.
CREATE TABLE culvert.manifests (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    sha256 bytea NOT NULL CHECK (length(sha256) = 32),
    encoding smallint NOT NULL CHECK (encoding IN (0, 1)), -- 0 plain, 1 zstd
    plain_bytes integer NOT NULL,
    content bytea NOT NULL,
    touched_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, sha256)
);
ALTER TABLE culvert.manifests ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX manifests_touched ON culvert.manifests (account_id, touched_at);

-- How far each runtime's reports have been applied, and the snapshot under way.
CREATE TABLE culvert.report_positions (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    tunnel_observed_at timestamptz,
    tunnel_received_at timestamptz,
    http_observed_at timestamptz,
    http_received_at timestamptz,
    snapshot_epoch bigint NOT NULL DEFAULT 0,    -- mark of the snapshot that began last
    snapshot_sequence bigint NOT NULL DEFAULT 0,
    snapshot_refused bigint NOT NULL DEFAULT 0,  -- its objects that were kept out
    snapshot_end_epoch bigint NOT NULL DEFAULT 0, -- end of the snapshot that matched last
    snapshot_end_sequence bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, runtime),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE culvert.clusters (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    server_version text COLLATE "C",
    connection_status text COLLATE "C" NOT NULL CHECK (connection_status IN ('Failed', 'Successful', 'Unknown')),
    connection_message text COLLATE "C",
    connection_attempted_at timestamptz,
    resources_count bigint,
    apis_count bigint,
    last_cache_sync_at timestamptz,
    api_versions jsonb,
    namespaces jsonb NOT NULL DEFAULT '[]',
    labels jsonb NOT NULL DEFAULT '{}',
    is_deleted boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, name),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);

CREATE TABLE culvert.applications (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,               -- where the Application object itself lives
    version text COLLATE "C" NOT NULL,               -- of its API
    uid text COLLATE "C" NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    -- state, from status
    sync_status text COLLATE "C" NOT NULL CHECK (sync_status IN ('OUT_OF_SYNC', 'SYNCED', 'SYNCING', 'UNKNOWN')),
    health_status text COLLATE "C" CHECK (health_status IN ('DEGRADED', 'HEALTHY', 'MISSING', 'PROGRESSING', 'SUSPENDED',
                                                'TERMINATED', 'UNKNOWN')),
    health_message text COLLATE "C",
    sync_revision text COLLATE "C",
    sync_revisions jsonb,
    operation_phase text COLLATE "C",
    operation_message text COLLATE "C",
    operation_started_at timestamptz,
    operation_finished_at timestamptz,
    operation_revision text COLLATE "C",
    operation_retry_count bigint,
    operation jsonb,                     -- small: initiator, revision, dry run, prune
    operation_resources jsonb,           -- syncResult.resources, bounded
    history_id bigint,
    history_id_min bigint,
    resources_count integer,
    -- wishes, from spec
    project text COLLATE "C",
    destination_server text COLLATE "C",
    destination_name text COLLATE "C",
    destination_namespace text COLLATE "C",
    repo_url text COLLATE "C",
    path text COLLATE "C",
    target_revision text COLLATE "C",
    chart text COLLATE "C",
    sources jsonb NOT NULL DEFAULT '[]', -- every source: path, repoURL, targetRevision, chart, ref
    is_multi_source boolean NOT NULL DEFAULT false,
    is_git_source boolean NOT NULL DEFAULT false,
    include_pattern text COLLATE "C",
    exclude_pattern text COLLATE "C",
    sync_policy text COLLATE "C" NOT NULL CHECK (sync_policy IN ('Automated', 'Manual', 'Unknown')),
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    errors jsonb NOT NULL DEFAULT '[]',  -- of the contract's types SyncError and HealthError
    application_created_at timestamptz,
    manifest_sha256 bytea,
    content_hash bytea,
    -- what only reports over HTTP know: the commit behind it and the manifests in Git
    source_repo_url text COLLATE "C",
    source_path text COLLATE "C",
    source_revision text COLLATE "C",
    commit_message text COLLATE "C",
    commit_author text COLLATE "C",
    commit_date text COLLATE "C",
    desired_sha256 bytea,
    git_sha256 bytea,
    source_errors jsonb NOT NULL DEFAULT '[]',
    source_observed_at timestamptz,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, namespace, name),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 80);
-- Lists go by (name, runtime, namespace): keyset pages over the whole account.
CREATE UNIQUE INDEX applications_list ON culvert.applications (account_id, name, runtime, namespace)
    WHERE NOT is_deleted;

-- The deployment ledger: every entry that status.history ever held, kept after Argo CD forgot it and after the
-- application was deleted or made anew (uid tells its incarnations apart).
CREATE TABLE culvert.application_history (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    history_id bigint NOT NULL,
    revision text COLLATE "C" NOT NULL,
    revisions jsonb,
    deployed_at timestamptz,
    deploy_started_at timestamptz,
    initiator text COLLATE "C",
    is_automated boolean,
    sources jsonb,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, namespace, name, uid, history_id),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);
CREATE INDEX application_history_time ON culvert.application_history (account_id, deployed_at);

-- Every sync operation, whether it came to a deployment or failed; the newest word about each stays.
CREATE TABLE culvert.application_operations (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    phase text COLLATE "C" NOT NULL,
    message text COLLATE "C",
    revision text COLLATE "C",
    initiator text COLLATE "C",
    is_automated boolean,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, runtime, namespace, name, uid, started_at),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);

CREATE TABLE culvert.resources (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    application_namespace text COLLATE "C" NOT NULL DEFAULT '',
    application_name text COLLATE "C" NOT NULL DEFAULT '',
    sync_status text COLLATE "C" CHECK (sync_status IN ('OUT_OF_SYNC', 'SYNCED', 'SYNCING', 'UNKNOWN')),
    health_status text COLLATE "C" CHECK (health_status IN ('DEGRADED', 'HEALTHY', 'MISSING', 'PROGRESSING', 'SUSPENDED',
                                                'TERMINATED', 'UNKNOWN')),
    health_message text COLLATE "C",
    owners jsonb NOT NULL DEFAULT '[]',  -- ownerReferences: apiVersion, kind, name, uid, controller
    labels jsonb NOT NULL DEFAULT '{}',
    images jsonb NOT NULL DEFAULT '[]',
    resource_created_at timestamptz,
    manifest_sha256 bytea,
    content_hash bytea,
    source_repo_url text COLLATE "C",
    source_path text COLLATE "C",
    source_revision text COLLATE "C",
    commit_message text COLLATE "C",
    commit_author text COLLATE "C",
    commit_date text COLLATE "C",
    desired_sha256 bytea,
    git_sha256 bytea,
    source_errors jsonb NOT NULL DEFAULT '[]',
    source_observed_at timestamptz,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX resources_application ON culvert.resources (account_id, runtime, application_namespace, application_name)
    WHERE application_name <> '' AND NOT is_deleted;
CREATE INDEX resources_uid ON culvert.resources (account_id, runtime, uid) WHERE NOT is_deleted;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['manifests', 'report_positions', 'clusters', 'applications', 'application_history',
                                    'application_operations', 'resources'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
