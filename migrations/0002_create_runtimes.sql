-- older-binaries: stop
-- Runtimes, their tokens, and the tunnel sessions that connect them.

CREATE TABLE culvert.runtimes (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    runtime text COLLATE "C" NOT NULL CHECK (runtime ~ '^[a-z0-9]([-a-z0-9]{0,36}[a-z0-9])?$'),
    runtime_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    cluster text COLLATE "C",
    installation_type text COLLATE "C" NOT NULL DEFAULT 'HELM' CHECK (installation_type IN ('HELM', 'HELM_HOSTED')),
    git_provider text COLLATE "C" CHECK (git_provider IN ('BITBUCKET', 'BITBUCKET_SERVER', 'GERRIT', 'GITHUB', 'GITLAB')),
    runtime_version text COLLATE "C",
    chart_version text COLLATE "C",
    component_names jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(component_names) = 'array'),
    ingress_host text COLLATE "C",
    internal_ingress_host text COLLATE "C",
    ingress_class text COLLATE "C",
    ingress_controller text COLLATE "C",
    gateway_name text COLLATE "C",
    gateway_namespace text COLLATE "C",
    repo text COLLATE "C",
    access_mode text COLLATE "C" NOT NULL DEFAULT 'TUNNEL' CHECK (access_mode IN ('INGRESS', 'TUNNEL')),
    is_managed boolean NOT NULL DEFAULT false,
    is_external_argo_cd boolean NOT NULL DEFAULT false,
    first_session_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime)
);

-- Tokens outlive their runtime, revoked, so that every replica hears of the revocation. `change` orders them for
-- readers that ask for what is newer than the last they saw: the lock makes later numbers commit later.
CREATE SEQUENCE culvert.runtime_token_changes;
CREATE TABLE culvert.runtime_tokens (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    token_id text COLLATE "C" NOT NULL CHECK (token_id ~ '^[0-9a-f]{24}$'),
    runtime text COLLATE "C" NOT NULL,
    runtime_id text COLLATE "C" NOT NULL,
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    change bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (account_id, token_id)
);
CREATE UNIQUE INDEX runtime_tokens_token ON culvert.runtime_tokens (token_id);
CREATE UNIQUE INDEX runtime_tokens_change ON culvert.runtime_tokens (change);
CREATE INDEX runtime_tokens_runtime ON culvert.runtime_tokens (account_id, runtime);

CREATE FUNCTION culvert.runtime_tokens_number() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1131771507, 1);
    NEW.change := nextval('culvert.runtime_token_changes');
    RETURN NEW;
END
$$;
CREATE TRIGGER number BEFORE INSERT OR UPDATE OF revoked_at, secret_sha256 ON culvert.runtime_tokens
    FOR EACH ROW EXECUTE FUNCTION culvert.runtime_tokens_number();

-- The last epoch given to a runtime's sessions. It outlives the runtime: a new one of the same name starts above every
-- session that the old one ever had.
CREATE TABLE culvert.runtime_epochs (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    runtime text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL CHECK (epoch > 0),
    PRIMARY KEY (account_id, runtime)
);

-- A replica of culvertd is alive while its lease is; all its sessions live and die with it. Not of any account.
CREATE TABLE culvert.replica_leases (
    replica text COLLATE "C" NOT NULL CHECK (replica <> '' AND length(replica) <= 200),
    expires_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (replica)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.replica_leases TO culvert_app;

CREATE TABLE culvert.tunnel_sessions (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    runtime_id text COLLATE "C" NOT NULL,
    replica text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    boot_id text COLLATE "C" NOT NULL,
    agent_version text COLLATE "C" NOT NULL,
    remote text COLLATE "C" NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    closed_at timestamptz,
    close_reason text COLLATE "C",
    PRIMARY KEY (account_id, runtime, epoch),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);
CREATE INDEX tunnel_sessions_open ON culvert.tunnel_sessions (replica) WHERE closed_at IS NULL;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['runtimes', 'runtime_tokens', 'runtime_epochs', 'tunnel_sessions'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
CREATE POLICY lookup ON culvert.runtime_tokens FOR SELECT TO culvert_lookup USING (true);
CREATE POLICY lookup ON culvert.tunnel_sessions FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT USAGE ON SEQUENCE culvert.runtime_token_changes TO culvert_app;
GRANT SELECT ON culvert.runtime_tokens TO culvert_lookup;
GRANT SELECT, UPDATE ON culvert.tunnel_sessions TO culvert_lookup;

-- Across accounts, for the one question each: they return what the question needs and nothing else.

-- Who does this token belong to? At most one row; the caller compares the hash.
CREATE FUNCTION culvert.token_lookup(wanted text)
RETURNS TABLE (kind text, account_id text, account_name text, user_id text, user_name text, email text,
               is_admin boolean, runtime text, runtime_id text, secret_sha256 bytea, is_valid boolean,
               note_use boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT 'user', k.account_id, a.name, u.user_id, u.name, u.email, u.is_admin, '', '', k.secret_sha256,
           k.revoked_at IS NULL AND NOT u.is_disabled AND (k.expires_at IS NULL OR k.expires_at > now()),
           k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute'
      FROM culvert.api_keys k
      JOIN culvert.users u ON u.account_id = k.account_id AND u.user_id = k.user_id
      JOIN culvert.accounts a ON a.account_id = k.account_id
     WHERE k.token_id = wanted
    UNION ALL
    SELECT 'runtime', t.account_id, a.name, '', '', '', false, t.runtime, t.runtime_id, t.secret_sha256,
           t.revoked_at IS NULL, t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
      FROM culvert.runtime_tokens t
      JOIN culvert.accounts a ON a.account_id = t.account_id
     WHERE t.token_id = wanted
     LIMIT 1
$$;

-- Runtime tokens that changed after `seen`, for the table that every replica keeps in memory.
CREATE FUNCTION culvert.runtime_tokens_since(seen bigint, row_limit integer)
RETURNS TABLE (change bigint, token_id text, account_id text, runtime text, runtime_id text, secret_sha256 bytea,
               is_revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.change, t.token_id, t.account_id, t.runtime, t.runtime_id, t.secret_sha256, t.revoked_at IS NOT NULL
      FROM culvert.runtime_tokens t
     WHERE t.change > seen
     ORDER BY t.change
     LIMIT row_limit
$$;

-- The id of an account whose name the operator typed.
CREATE FUNCTION culvert.account_by_name(wanted text) RETURNS TABLE (account_id text, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT a.account_id, a.name FROM culvert.accounts a WHERE a.name = wanted
$$;

-- Ends what a replica that is starting left open when it died.
CREATE FUNCTION culvert.sessions_forget_replica(gone text) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH closed AS (
        UPDATE culvert.tunnel_sessions s SET closed_at = now(), close_reason = 'replica restarted'
         WHERE s.replica = gone AND s.closed_at IS NULL
        RETURNING 1)
    SELECT count(*) FROM closed
$$;

-- The functions belong to culvert_lookup; taking that role is only needed while they are handed over.
GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    FOREACH function_name IN ARRAY ARRAY['token_lookup(text)', 'runtime_tokens_since(bigint, integer)',
                                         'account_by_name(text)', 'sessions_forget_replica(text)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
