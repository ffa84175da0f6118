-- older-binaries: work
-- Tokens with which agents create their own runtimes. An agent makes its runtime token by itself;
-- the platform gets its id and hash. A use belongs to one runtime token, so that asking again is no
-- further use.

CREATE TABLE culvert.enrollment_tokens (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    token_id text COLLATE "C" NOT NULL CHECK (token_id ~ '^[0-9a-f]{24}$'),
    name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    name_pattern text COLLATE "C" NOT NULL DEFAULT '*' CHECK (name_pattern ~ '^[-a-z0-9*]{1,64}$'),
    uses_max integer NOT NULL CHECK (uses_max BETWEEN 1 AND 10000),
    uses integer NOT NULL DEFAULT 0 CHECK (uses BETWEEN 0 AND uses_max),
    created_by text COLLATE "C" NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (account_id, token_id)
);
CREATE UNIQUE INDEX enrollment_tokens_token ON culvert.enrollment_tokens (token_id);

-- proof_sha256: of the hash of the runtime token, which signs callers' identities and is not here.
CREATE TABLE culvert.enrollment_uses (
    account_id text COLLATE "C" NOT NULL,
    runtime_token_id text COLLATE "C" NOT NULL CHECK (runtime_token_id ~ '^[0-9a-f]{24}$'),
    token_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    runtime_id text COLLATE "C" NOT NULL,
    proof_sha256 bytea NOT NULL CHECK (length(proof_sha256) = 32),
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime_token_id),
    FOREIGN KEY (account_id, token_id) REFERENCES culvert.enrollment_tokens ON DELETE CASCADE
);
CREATE INDEX enrollment_uses_token ON culvert.enrollment_uses (account_id, token_id);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['enrollment_tokens', 'enrollment_uses'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
CREATE POLICY lookup ON culvert.enrollment_tokens FOR SELECT TO culvert_lookup USING (true);
GRANT SELECT ON culvert.enrollment_tokens TO culvert_lookup;

-- What is deleted a month after its end is no change of a person's.
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF revoked_at, uses ON culvert.enrollment_tokens
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('token_id');

-- Creates the runtime with its token and counts the use, or returns why not. The row of the
-- enrollment token is locked, so that of two agents one gets the last use.
CREATE FUNCTION culvert.enroll(in_account text, in_token text, in_runtime text, in_runtime_id text,
                               in_runtime_token text, in_secret bytea, in_proof bytea)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    token culvert.enrollment_tokens;
    earlier culvert.enrollment_uses;
BEGIN
    SELECT * INTO token FROM culvert.enrollment_tokens t
     WHERE t.account_id = in_account AND t.token_id = in_token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT * INTO earlier FROM culvert.enrollment_uses u
     WHERE u.account_id = in_account AND u.runtime_token_id = in_runtime_token;
    IF FOUND THEN
        IF earlier.proof_sha256 <> in_proof OR earlier.runtime <> in_runtime THEN
            RETURN 'other';
        END IF;
        IF EXISTS (SELECT FROM culvert.runtime_tokens r
                    WHERE r.account_id = in_account AND r.token_id = in_runtime_token AND r.revoked_at IS NULL
                      AND (r.expires_at IS NULL OR r.expires_at > now())) THEN
            RETURN 'done';
        END IF;
        RETURN 'ended';
    END IF;
    IF token.revoked_at IS NOT NULL THEN
        RETURN 'revoked';
    ELSIF token.expires_at <= now() THEN
        RETURN 'expired';
    ELSIF token.uses >= token.uses_max THEN
        RETURN 'used_up';
    ELSIF in_runtime NOT LIKE replace(token.name_pattern, '*', '%') THEN
        RETURN 'pattern';
    END IF;
    INSERT INTO culvert.runtimes (account_id, runtime, runtime_id, access_mode)
    VALUES (in_account, in_runtime, in_runtime_id, 'TUNNEL')
    ON CONFLICT (account_id, runtime) DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'taken';
    END IF;
    INSERT INTO culvert.runtime_tokens (account_id, token_id, runtime, runtime_id, secret_sha256, change, name)
    VALUES (in_account, in_runtime_token, in_runtime, in_runtime_id, in_secret, 0, 'enrollment');
    INSERT INTO culvert.enrollment_uses (account_id, runtime_token_id, token_id, runtime, runtime_id, proof_sha256)
    VALUES (in_account, in_runtime_token, in_token, in_runtime, in_runtime_id, in_proof);
    UPDATE culvert.enrollment_tokens t SET uses = t.uses + 1, last_used_at = now()
     WHERE t.account_id = in_account AND t.token_id = in_token;
    RETURN 'created';
END
$$;
REVOKE ALL ON FUNCTION culvert.enroll(text, text, text, text, text, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.enroll(text, text, text, text, text, bytea, bytea) TO culvert_app;

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

-- Whose is this enrollment token? At most one row; the caller compares the hash.
CREATE FUNCTION culvert.enrollment_lookup(wanted text)
RETURNS TABLE (account_id text, name text, secret_sha256 bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.account_id, t.name, t.secret_sha256
      FROM culvert.enrollment_tokens t
     WHERE t.token_id = wanted
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    REVOKE ALL ON FUNCTION culvert.enrollment_lookup(text) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.enrollment_lookup(text) TO culvert_app;
    ALTER FUNCTION culvert.enrollment_lookup(text) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
