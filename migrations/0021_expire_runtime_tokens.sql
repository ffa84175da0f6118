-- older-binaries: work
-- A runtime may have several tokens, each with a name. A token ends when it is revoked, when its time is over, or some
-- time after another one was made in its place (rotation sets expires_at). Older binaries learn of an end that has
-- passed when they look a token up, not from their table in memory.

ALTER TABLE culvert.runtime_tokens
    ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(name) <= 200),
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN replaced_at timestamptz;
DROP TRIGGER number ON culvert.runtime_tokens;
CREATE TRIGGER number BEFORE INSERT OR UPDATE OF revoked_at, expires_at, secret_sha256 ON culvert.runtime_tokens
    FOR EACH ROW EXECUTE FUNCTION culvert.runtime_tokens_number();

-- When people are to be warned: a third of the token's life before its end, two weeks at most. NULL: never.
CREATE FUNCTION culvert.runtime_token_warns_at(token culvert.runtime_tokens) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT token.expires_at -
           least(interval '14 days', (token.expires_at - coalesce(token.replaced_at, token.created_at)) / 3)
$$;
REVOKE ALL ON FUNCTION culvert.runtime_token_warns_at(culvert.runtime_tokens) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.runtime_token_warns_at(culvert.runtime_tokens) TO culvert_app, culvert_lookup;

CREATE POLICY note_use ON culvert.runtime_tokens FOR UPDATE TO culvert_lookup USING (true) WITH CHECK (true);
CREATE POLICY sweep ON culvert.runtime_tokens FOR DELETE TO culvert_lookup USING (true);
GRANT UPDATE (last_used_at), DELETE ON culvert.runtime_tokens TO culvert_lookup;

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

-- As before (migrations/0002); a token whose time is over is not valid.
CREATE OR REPLACE FUNCTION culvert.token_lookup(wanted text)
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
           t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()),
           t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
      FROM culvert.runtime_tokens t
      JOIN culvert.accounts a ON a.account_id = t.account_id
     WHERE t.token_id = wanted
     LIMIT 1
$$;

-- Runtime tokens that changed after `seen`, for the table that every replica keeps in memory. Times are spans from now
-- in milliseconds, so that no clock but the database's counts; NULL: never.
CREATE FUNCTION culvert.runtime_tokens_changed(seen bigint, row_limit integer)
RETURNS TABLE (change bigint, token_id text, account_id text, account_name text, runtime text, runtime_id text,
               secret_sha256 bytea, is_revoked boolean, expires_in_ms bigint, warns_in_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.change, t.token_id, t.account_id, a.name, t.runtime, t.runtime_id, t.secret_sha256,
           t.revoked_at IS NOT NULL,
           least(floor(extract(epoch FROM t.expires_at - clock_timestamp()) * 1000), 9000000000000000)::bigint,
           CASE WHEN t.replaced_at IS NULL
                THEN least(floor(extract(epoch FROM culvert.runtime_token_warns_at(t) - clock_timestamp()) * 1000),
                           9000000000000000)::bigint END
      FROM culvert.runtime_tokens t
      JOIN culvert.accounts a ON a.account_id = t.account_id
     WHERE t.change > seen
     ORDER BY t.change
     LIMIT row_limit
$$;

-- These were in use a moment ago. Returns how many there are.
CREATE FUNCTION culvert.runtime_tokens_used(ids text[]) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
    WITH used AS (
        UPDATE culvert.runtime_tokens SET last_used_at = now() WHERE token_id = ANY (ids) RETURNING 1)
    SELECT count(*) FROM used
$$;

-- Tokens that ended a month ago: every replica has heard of that long since. Returns how many went.
CREATE FUNCTION culvert.runtime_tokens_sweep(row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
    WITH gone AS (
        DELETE FROM culvert.runtime_tokens
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM culvert.runtime_tokens
                                  WHERE least(revoked_at, expires_at) < now() - interval '30 days'
                                  LIMIT row_limit))
           AND least(revoked_at, expires_at) < now() - interval '30 days'
        RETURNING 1)
    SELECT count(*) FROM gone
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY['runtime_tokens_changed(bigint, integer)', 'runtime_tokens_used(text[])',
                                         'runtime_tokens_sweep(integer)'] LOOP
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
