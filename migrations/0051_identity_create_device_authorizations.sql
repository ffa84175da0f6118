-- older-binaries: work
-- Sign-in from a device without a browser (RFC 8628): what a command line asked for, until a person
-- allows or denies it. It belongs to no account before that, so that the table is behind definer's
-- functions alone. Of both codes only hashes are stored.

CREATE TABLE culvert.device_authorizations (
    device_id text COLLATE "C" PRIMARY KEY CHECK (device_id ~ '^[0-9a-f]{24}$'),
    secret_sha256 bytea NOT NULL CHECK (length(secret_sha256) = 32),
    user_code_sha256 bytea NOT NULL UNIQUE CHECK (length(user_code_sha256) = 32),
    client_id text COLLATE "C" NOT NULL CHECK (length(client_id) <= 64),
    remote text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(remote) <= 100),
    user_agent text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(user_agent) <= 300),
    interval_s integer NOT NULL CHECK (interval_s BETWEEN 1 AND 3600),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    polled_at timestamptz,
    -- Of the person who decided.
    account_id text COLLATE "C",
    user_id text COLLATE "C",
    is_allowed boolean,
    used_at timestamptz,
    CHECK ((account_id IS NULL) = (is_allowed IS NULL) AND (account_id IS NULL) = (user_id IS NULL)),
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE
);
CREATE INDEX device_authorizations_user ON culvert.device_authorizations (account_id, user_id);
CREATE INDEX device_authorizations_remote ON culvert.device_authorizations (remote, expires_at);

ALTER TABLE culvert.device_authorizations ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.device_authorizations FORCE ROW LEVEL SECURITY;
CREATE POLICY lookup ON culvert.device_authorizations TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.device_authorizations TO culvert_lookup;

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

-- 'created'; 'full': as many wait as may; 'full_address': of this address. What has expired is kept
-- for as long again, so that the answer can tell so; nothing else deletes it.
CREATE FUNCTION culvert.device_authorization_create(in_id text, in_secret bytea, in_code bytea, in_client text,
                                                    in_remote text, in_agent text, life_s bigint, in_interval integer,
                                                    all_max bigint, address_max bigint)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.device_authorizations
     WHERE device_id = ANY (ARRAY(SELECT d.device_id FROM culvert.device_authorizations d
                                   WHERE d.expires_at + (d.expires_at - d.created_at) < now() LIMIT 1000));
    -- Two that ask at once may pass the limit by one.
    IF (SELECT count(*) FROM (SELECT FROM culvert.device_authorizations d
                               WHERE d.remote = in_remote AND d.expires_at > now() AND d.is_allowed IS NULL
                               LIMIT address_max) AS own) >= address_max THEN
        RETURN 'full_address';
    ELSIF (SELECT count(*) FROM (SELECT FROM culvert.device_authorizations d WHERE d.expires_at > now() LIMIT all_max) AS every) >= all_max THEN
        RETURN 'full';
    END IF;
    INSERT INTO culvert.device_authorizations (device_id, secret_sha256, user_code_sha256, client_id, remote, user_agent,
                                               interval_s, expires_at)
    VALUES (in_id, in_secret, in_code, in_client, in_remote, in_agent, in_interval, now() + life_s * interval '1 second');
    RETURN 'created';
END
$$;

-- What waits under this code.
CREATE FUNCTION culvert.device_authorization_find(in_code bytea)
RETURNS TABLE (client_id text, remote text, user_agent text, created_at timestamptz, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT d.client_id, d.remote, d.user_agent, d.created_at, d.expires_at
      FROM culvert.device_authorizations d
     WHERE d.user_code_sha256 = in_code AND d.is_allowed IS NULL AND d.expires_at > now()
$$;

-- For the account of the session (app.account_id) alone. Returns how many it was: 0 or 1.
CREATE FUNCTION culvert.device_authorization_decide(in_code bytea, in_account text, in_user text, in_allowed boolean)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    decided culvert.device_authorizations;
BEGIN
    UPDATE culvert.device_authorizations d
       SET account_id = in_account, user_id = in_user, is_allowed = in_allowed
     WHERE d.user_code_sha256 = in_code AND d.is_allowed IS NULL AND d.expires_at > now()
       AND in_account = current_setting('app.account_id', true)
    RETURNING * INTO decided;
    IF decided.device_id IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM culvert.audit_append(in_account, 'update', 'device_authorizations', decided.device_id,
                                 culvert.audit_patch('{}', jsonb_build_object('client_id', decided.client_id,
                                                                              'remote', decided.remote,
                                                                              'user_agent', decided.user_agent,
                                                                              'user_id', in_user)),
                                 CASE WHEN in_allowed THEN 'allowed' ELSE 'denied' END);
    RETURN 1;
END
$$;

-- A word of RFC 8628, section 3.5, or 'allowed', and then by whom. Who asks too soon has
-- to wait longer from then on.
CREATE FUNCTION culvert.device_authorization_poll(in_id text, in_secret bytea)
RETURNS TABLE (state text, account_id text, user_id text, user_name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    found culvert.device_authorizations;
BEGIN
    SELECT * INTO found FROM culvert.device_authorizations d
     WHERE d.device_id = in_id AND d.secret_sha256 = in_secret FOR UPDATE;
    IF found.device_id IS NULL OR found.used_at IS NOT NULL THEN
        RETURN QUERY SELECT 'invalid_grant', NULL::text, NULL::text, NULL::text;
    ELSIF found.expires_at <= now() THEN
        RETURN QUERY SELECT 'expired_token', NULL::text, NULL::text, NULL::text;
    ELSIF found.is_allowed IS NOT NULL THEN
        RETURN QUERY SELECT CASE WHEN found.is_allowed THEN 'allowed' ELSE 'access_denied' END, u.account_id, u.user_id,
                            u.name
                       FROM culvert.users u
                      WHERE u.account_id = found.account_id AND u.user_id = found.user_id;
    ELSIF found.polled_at + found.interval_s * interval '1 second' > now() + interval '200 milliseconds' THEN
        UPDATE culvert.device_authorizations d SET interval_s = least(d.interval_s + 5, 60), polled_at = now()
         WHERE d.device_id = in_id;
        RETURN QUERY SELECT 'slow_down', NULL::text, NULL::text, NULL::text;
    ELSE
        UPDATE culvert.device_authorizations d SET polled_at = now() WHERE d.device_id = in_id;
        RETURN QUERY SELECT 'authorization_pending', NULL::text, NULL::text, NULL::text;
    END IF;
END
$$;

-- Uses up what was allowed, for the account of the session alone. No row: there is nothing.
CREATE FUNCTION culvert.device_authorization_take(in_id text) RETURNS TABLE (user_id text, remote text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    UPDATE culvert.device_authorizations d SET used_at = now()
     WHERE d.device_id = in_id AND d.is_allowed AND d.used_at IS NULL AND d.expires_at > now()
       AND d.account_id = current_setting('app.account_id', true)
    RETURNING d.user_id, d.remote
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY[
        'device_authorization_create(text, bytea, bytea, text, text, text, bigint, integer, bigint, bigint)',
        'device_authorization_find(bytea)', 'device_authorization_decide(bytea, text, text, boolean)',
        'device_authorization_poll(text, bytea)', 'device_authorization_take(text)'] LOOP
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
