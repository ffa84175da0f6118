-- older-binaries: stop
-- What clusters reported: rows, not documents. A row carries where it came from (epoch, sequence) and yields only to
-- something newer; a deleted object stays as a tombstone, so that a late repetition cannot bring it back.

-- Manifests, compressed and named by the SHA-256 of their plain text: shared by rows and history of one account.
CREATE TABLE culvert.manifests (
    account_id text NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
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
    account_id text NOT NULL,
    runtime text NOT NULL,
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
    account_id text NOT NULL,
    runtime text NOT NULL,
    name text NOT NULL,
    server text NOT NULL,
    server_version text,
    connection_status text NOT NULL CHECK (connection_status IN ('Failed', 'Successful', 'Unknown')),
    connection_message text,
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
    account_id text NOT NULL,
    runtime text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    cluster text NOT NULL,               -- where the Application object itself lives
    version text NOT NULL,               -- of its API
    uid text NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    -- state, from status
    sync_status text NOT NULL CHECK (sync_status IN ('OUT_OF_SYNC', 'SYNCED', 'SYNCING', 'UNKNOWN')),
    health_status text CHECK (health_status IN ('DEGRADED', 'HEALTHY', 'MISSING', 'PROGRESSING', 'SUSPENDED',
                                                'TERMINATED', 'UNKNOWN')),
    health_message text,
    sync_revision text,
    sync_revisions jsonb,
    operation_phase text,
    operation_message text,
    operation_started_at timestamptz,
    operation_finished_at timestamptz,
    operation_revision text,
    operation_retry_count bigint,
    operation jsonb,                     -- small: initiator, revision, dry run, prune
    operation_resources jsonb,           -- syncResult.resources, bounded
    history_id bigint,
    history_id_min bigint,
    resources_count integer,
    -- wishes, from spec
    project text,
    destination_server text,
    destination_name text,
    destination_namespace text,
    repo_url text,
    path text,
    target_revision text,
    chart text,
    sources jsonb NOT NULL DEFAULT '[]', -- every source: path, repoURL, targetRevision, chart, ref
    is_multi_source boolean NOT NULL DEFAULT false,
    is_git_source boolean NOT NULL DEFAULT false,
    include_pattern text,
    exclude_pattern text,
    sync_policy text NOT NULL CHECK (sync_policy IN ('Automated', 'Manual', 'Unknown')),
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    errors jsonb NOT NULL DEFAULT '[]',  -- of the contract's types SyncError and HealthError
    application_created_at timestamptz,
    manifest_sha256 bytea,
    content_hash bytea,
    -- what only reports over HTTP know: the commit behind it and the manifests in Git
    source_repo_url text,
    source_path text,
    source_revision text,
    commit_message text,
    commit_author text,
    commit_date text,
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
    account_id text NOT NULL,
    runtime text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    uid text NOT NULL,
    history_id bigint NOT NULL,
    revision text NOT NULL,
    revisions jsonb,
    deployed_at timestamptz,
    deploy_started_at timestamptz,
    initiator text,
    is_automated boolean,
    sources jsonb,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, namespace, name, uid, history_id),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);
CREATE INDEX application_history_time ON culvert.application_history (account_id, deployed_at);

-- Every sync operation, whether it came to a deployment or failed; the newest word about each stays.
CREATE TABLE culvert.application_operations (
    account_id text NOT NULL,
    runtime text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    uid text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    phase text NOT NULL,
    message text,
    revision text,
    initiator text,
    is_automated boolean,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, runtime, namespace, name, uid, started_at),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);

CREATE TABLE culvert.resources (
    account_id text NOT NULL,
    runtime text NOT NULL,
    cluster text NOT NULL,
    api_group text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    uid text NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    application_namespace text NOT NULL DEFAULT '',
    application_name text NOT NULL DEFAULT '',
    sync_status text CHECK (sync_status IN ('OUT_OF_SYNC', 'SYNCED', 'SYNCING', 'UNKNOWN')),
    health_status text CHECK (health_status IN ('DEGRADED', 'HEALTHY', 'MISSING', 'PROGRESSING', 'SUSPENDED',
                                                'TERMINATED', 'UNKNOWN')),
    health_message text,
    owners jsonb NOT NULL DEFAULT '[]',  -- ownerReferences: apiVersion, kind, name, uid, controller
    labels jsonb NOT NULL DEFAULT '{}',
    images jsonb NOT NULL DEFAULT '[]',
    resource_created_at timestamptz,
    manifest_sha256 bytea,
    content_hash bytea,
    source_repo_url text,
    source_path text,
    source_revision text,
    commit_message text,
    commit_author text,
    commit_date text,
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
