-- older-binaries: stop
-- Accounts, users and API keys, and the two roles that the rest builds on.
--
-- culvert_app     what culvertd's login user is a member of: reads and writes rows, changes no tables, and sees only the
--                 rows of the account that its transaction names in app.account_id (row-level security, forced).
-- culvert_lookup  owns the few functions that must look across accounts (a credential is presented before its account
--                 is known). Nobody logs in as it and nobody is a member of it once a migration has ended.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'culvert_app') THEN
        CREATE ROLE culvert_app NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this server was migrated at the same moment
END
$$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'culvert_lookup') THEN
        CREATE ROLE culvert_lookup NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

REVOKE ALL ON SCHEMA culvert FROM PUBLIC;
GRANT USAGE ON SCHEMA culvert TO culvert_app, culvert_lookup;
GRANT SELECT ON culvert.schema_migrations TO culvert_app;

CREATE TABLE culvert.accounts (
    account_id text COLLATE "C" NOT NULL CHECK (account_id ~ '^[0-9a-f]{24}$'),
    name text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    git_provider text COLLATE "C" CHECK (git_provider IN ('BITBUCKET', 'BITBUCKET_SERVER', 'GERRIT', 'GITHUB', 'GITLAB')),
    git_api_url text COLLATE "C",
    shared_config_repo text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id)
);
CREATE UNIQUE INDEX accounts_name ON culvert.accounts (name);

CREATE TABLE culvert.users (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    user_id text COLLATE "C" NOT NULL CHECK (user_id ~ '^[0-9a-f]{24}$'),
    name text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    email text COLLATE "C" NOT NULL CHECK (length(email) <= 320),
    is_admin boolean NOT NULL DEFAULT false,
    is_disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, user_id)
);
CREATE UNIQUE INDEX users_name ON culvert.users (account_id, name);

CREATE TABLE culvert.api_keys (
    account_id text COLLATE "C" NOT NULL,
    token_id text COLLATE "C" NOT NULL CHECK (token_id ~ '^[0-9a-f]{24}$'),
    user_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    scopes jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(scopes) = 'array'),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (account_id, token_id),
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE
);
CREATE UNIQUE INDEX api_keys_token ON culvert.api_keys (token_id);
CREATE UNIQUE INDEX api_keys_name ON culvert.api_keys (account_id, user_id, name) WHERE revoked_at IS NULL;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['accounts', 'users', 'api_keys'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR SELECT TO culvert_lookup USING (true)', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
        EXECUTE format('GRANT SELECT ON culvert.%I TO culvert_lookup', relation);
    END LOOP;
END
$$;
