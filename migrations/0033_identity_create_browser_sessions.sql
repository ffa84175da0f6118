-- older-binaries: work
-- Browser sessions, the one-time links that open them, and read-only users. Of a session and of a
-- link only a hash is stored, made for that purpose alone (base/token.h): no secret of one kind is
-- accepted as another kind. Older binaries accept neither; credential_lookup() is what
-- token_lookup() was, and that one stays for them.

ALTER TABLE culvert.users ADD COLUMN is_read_only boolean NOT NULL DEFAULT false;
ALTER TABLE culvert.users ADD CONSTRAINT users_one_role CHECK (NOT (is_admin AND is_read_only));

CREATE TABLE culvert.browser_sessions (
    account_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL CHECK (session_id ~ '^[0-9a-f]{24}$'),
    user_id text COLLATE "C" NOT NULL,
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    method text COLLATE "C" NOT NULL CHECK (method IN ('link', 'api_key', 'oidc')),
    -- Opened with this key: it ends with the key, and may not do more.
    key_id text COLLATE "C",
    remote text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(remote) <= 100),
    user_agent text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(user_agent) <= 300),
    idle_max interval NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (account_id, session_id),
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE,
    FOREIGN KEY (account_id, key_id) REFERENCES culvert.api_keys ON DELETE CASCADE
);
CREATE UNIQUE INDEX browser_sessions_id ON culvert.browser_sessions (session_id);
CREATE INDEX browser_sessions_user ON culvert.browser_sessions (account_id, user_id) WHERE revoked_at IS NULL;
CREATE INDEX browser_sessions_key ON culvert.browser_sessions (account_id, key_id) WHERE key_id IS NOT NULL;

CREATE TABLE culvert.sign_in_links (
    account_id text COLLATE "C" NOT NULL,
    link_id text COLLATE "C" NOT NULL CHECK (link_id ~ '^[0-9a-f]{24}$'),
    user_id text COLLATE "C" NOT NULL,
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    PRIMARY KEY (account_id, link_id),
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE
);
CREATE UNIQUE INDEX sign_in_links_id ON culvert.sign_in_links (link_id);
CREATE INDEX sign_in_links_user ON culvert.sign_in_links (account_id, user_id);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['browser_sessions', 'sign_in_links'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR SELECT TO culvert_lookup USING (true)', relation);
        EXECUTE format('CREATE POLICY sweep ON culvert.%I FOR DELETE TO culvert_lookup USING (true)', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
        EXECUTE format('GRANT SELECT, DELETE ON culvert.%I TO culvert_lookup', relation);
    END LOOP;
END
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
END
$$;

-- The credential with this id, of whichever kind and account. scopes: of an API key, and of a
-- session that was opened with one, separated by spaces; empty: everything that the user may do.
CREATE FUNCTION culvert.credential_lookup(wanted text)
RETURNS TABLE (kind text, account_id text, account_name text, user_id text, user_name text, email text,
               role text, runtime text, runtime_id text, secret_sha256 bytea, is_valid boolean, note_use boolean,
               method text, scopes text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH presented AS (
        SELECT k.account_id, k.user_id, k.secret_sha256, k.token_id AS key_id, 'api_key' AS method, true AS is_valid,
               k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute' AS note_use
          FROM culvert.api_keys k
         WHERE k.token_id = wanted
        UNION ALL
        SELECT s.account_id, s.user_id, s.secret_sha256, s.key_id, 'session',
               s.revoked_at IS NULL AND s.expires_at > now() AND s.last_used_at + s.idle_max > now(),
               s.last_used_at < now() - interval '1 minute'
          FROM culvert.browser_sessions s
         WHERE s.session_id = wanted
        UNION ALL
        SELECT l.account_id, l.user_id, l.secret_sha256, NULL, 'link', l.used_at IS NULL AND l.expires_at > now(), false
          FROM culvert.sign_in_links l
         WHERE l.link_id = wanted)
    SELECT 'user', p.account_id, a.name, u.user_id, u.name, u.email,
           CASE WHEN u.is_admin THEN 'admin' WHEN u.is_read_only THEN 'read-only' ELSE 'member' END, '', '',
           p.secret_sha256,
           p.is_valid AND NOT u.is_disabled AND
           (p.key_id IS NULL OR k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())),
           p.note_use, p.method,
           coalesce((SELECT string_agg(scope, ' ') FROM jsonb_array_elements_text(k.scopes) AS scopes (scope)), '')
      FROM presented p
      JOIN culvert.users u ON u.account_id = p.account_id AND u.user_id = p.user_id
      JOIN culvert.accounts a ON a.account_id = p.account_id
      LEFT JOIN culvert.api_keys k ON k.account_id = p.account_id AND k.token_id = p.key_id
    UNION ALL
    SELECT 'runtime', t.account_id, a.name, '', '', '', '', t.runtime, t.runtime_id, t.secret_sha256,
           t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()),
           t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute', 'runtime_token', ''
      FROM culvert.runtime_tokens t
      JOIN culvert.accounts a ON a.account_id = t.account_id
     WHERE t.token_id = wanted
     LIMIT 1
$$;

-- Sessions and links that ended a month ago. Returns how many went.
CREATE FUNCTION culvert.browser_sessions_sweep(row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
    WITH sessions AS (
        DELETE FROM culvert.browser_sessions
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.browser_sessions
                                  WHERE least(revoked_at, expires_at, last_used_at + idle_max) < now() - interval '30 days'
                                  LIMIT row_limit))
        RETURNING 1),
    links AS (
        DELETE FROM culvert.sign_in_links
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.sign_in_links
                                  WHERE least(used_at, expires_at) < now() - interval '30 days'
                                  LIMIT row_limit))
        RETURNING 1)
    SELECT greatest((SELECT count(*) FROM sessions), (SELECT count(*) FROM links))
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY['credential_lookup(text)', 'browser_sessions_sweep(integer)'] LOOP
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
