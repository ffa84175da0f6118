-- older-binaries: work
-- Who changed what: an entry in the transaction of each change, written by triggers, so that no
-- path around them is left. The entries of an account are a chain: each has the hash of the one
-- before it. culvert_app may add entries and change none. What the server knows of the caller is in
-- app.actor (storage/pg/pg.h); older binaries set none.

CREATE TABLE culvert.audit_heads (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    -- Of the oldest entry that is kept.
    first_number bigint NOT NULL DEFAULT 1,
    first_previous bytea NOT NULL DEFAULT ''::bytea,
    PRIMARY KEY (account_id)
);

CREATE TABLE culvert.audit_entries (
    account_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    actor jsonb,
    action text COLLATE "C" NOT NULL,
    entity text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    patch jsonb NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (account_id, number)
);
CREATE INDEX audit_entries_entity ON culvert.audit_entries (account_id, entity, entity_id, number);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['audit_heads', 'audit_entries'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('CREATE POLICY sweep ON culvert.%I TO culvert_lookup USING (true) WITH CHECK (true)', relation);
        EXECUTE format('GRANT SELECT, INSERT ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
GRANT UPDATE (number, hash) ON culvert.audit_heads TO culvert_app;
GRANT SELECT, UPDATE (first_number, first_previous) ON culvert.audit_heads TO culvert_lookup;
GRANT SELECT, DELETE ON culvert.audit_entries TO culvert_lookup;

CREATE FUNCTION culvert.audit_hash(entry culvert.audit_entries) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        entry.account_id, entry.number, to_char(entry.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), entry.actor,
        entry.action, entry.entity, entry.entity_id, entry.patch, entry.outcome,
        encode(entry.previous, 'hex'))::text, 'UTF8'))
$$;

-- What made the one of the other, as JSON Patch (RFC 6902); a test before each change has the value
-- from before.
CREATE FUNCTION culvert.audit_patch(before jsonb, after jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(jsonb_agg(op ORDER BY key, place), '[]'::jsonb)
      FROM (SELECT coalesce(o.key, n.key) AS key, o.value AS old, n.value AS new
              FROM jsonb_each(before) AS o (key, value)
              FULL JOIN jsonb_each(after) AS n (key, value) ON n.key = o.key
             WHERE o.value IS DISTINCT FROM n.value) AS changed
     CROSS JOIN LATERAL (
        SELECT 1 AS place, jsonb_build_object('op', 'test', 'path', '/' || key, 'value', old) AS op WHERE old IS NOT NULL
        UNION ALL
        SELECT 2, CASE WHEN new IS NULL THEN jsonb_build_object('op', 'remove', 'path', '/' || key)
                       ELSE jsonb_build_object('op', CASE WHEN old IS NULL THEN 'add' ELSE 'replace' END,
                                               'path', '/' || key, 'value', new) END) AS ops
$$;

-- The head is locked until the transaction ends, so that numbers have no gaps.
CREATE FUNCTION culvert.audit_append(account text, action text, entity text, entity_id text, patch jsonb, outcome text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    head culvert.audit_heads;
    entry culvert.audit_entries;
BEGIN
    INSERT INTO culvert.audit_heads (account_id, number, hash) VALUES (account, 0, ''::bytea) ON CONFLICT DO NOTHING;
    SELECT * INTO head FROM culvert.audit_heads h WHERE h.account_id = account FOR UPDATE;
    entry.account_id := account;
    entry.number := head.number + 1;
    entry.at := clock_timestamp();
    entry.actor := nullif(current_setting('app.actor', true), '')::jsonb;
    entry.action := action;
    entry.entity := entity;
    entry.entity_id := entity_id;
    entry.patch := patch;
    entry.outcome := outcome;
    entry.previous := head.hash;
    entry.hash := culvert.audit_hash(entry);
    INSERT INTO culvert.audit_entries SELECT entry.*;
    UPDATE culvert.audit_heads h SET number = entry.number, hash = entry.hash WHERE h.account_id = account;
END
$$;

-- Argument: the column that names the row. Secrets are left out, and what changes with mere use.
CREATE FUNCTION culvert.audit_row() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    before jsonb := '{}';
    after jsonb := '{}';
    changes jsonb;
    unlisted CONSTANT text[] := ARRAY['secret_sha256', 'last_used_at', 'change'];
BEGIN
    IF TG_OP <> 'INSERT' THEN
        before := to_jsonb(OLD) - unlisted;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        after := to_jsonb(NEW) - unlisted;
    END IF;
    changes := culvert.audit_patch(before, after);
    IF changes = '[]' THEN
        RETURN NULL;
    END IF;
    PERFORM culvert.audit_append(coalesce(after ->> 'account_id', before ->> 'account_id'),
                                 CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
                                 TG_TABLE_NAME, coalesce(after ->> TG_ARGV[0], before ->> TG_ARGV[0]), changes, 'done');
    RETURN NULL;
END
$$;

-- What sweeps delete after a month is no change of a person's.
CREATE TRIGGER audit AFTER UPDATE ON culvert.accounts
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('account_id');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON culvert.users
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('user_id');
CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF name, scopes, expires_at, revoked_at ON culvert.api_keys
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('token_id');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF revoked_at ON culvert.browser_sessions
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('session_id');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF used_at, expires_at ON culvert.sign_in_links
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('link_id');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON culvert.teams
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('team_id');
CREATE TRIGGER audit AFTER INSERT OR DELETE ON culvert.team_members
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('team_id');
CREATE TRIGGER audit AFTER INSERT OR DELETE ON culvert.runtimes
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('runtime');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF revoked_at, expires_at ON culvert.runtime_tokens
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('token_id');

DO $$
DECLARE
    function_name text;
BEGIN
    FOREACH function_name IN ARRAY ARRAY['audit_hash(culvert.audit_entries)', 'audit_patch(jsonb, jsonb)', 'audit_row()',
                                         'audit_append(text, text, text, text, jsonb, text)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, culvert_lookup', function_name);
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

-- Entries older than that, the oldest first, at most row_limit of each account; the newest entry
-- stays. What is left is still a chain. Returns how many went of the account that had most.
CREATE FUNCTION culvert.audit_sweep(row_limit integer, keep_days integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '300ms' AS $$
DECLARE
    head culvert.audit_heads;
    kept culvert.audit_entries;
    most bigint := 0;
BEGIN
    FOR head IN SELECT h.*
                  FROM culvert.audit_heads h
                  JOIN culvert.audit_entries e ON e.account_id = h.account_id AND e.number = h.first_number
                 WHERE e.at < now() - keep_days * interval '1 day' AND h.number > h.first_number
    LOOP
        SELECT e.* INTO kept
          FROM culvert.audit_entries e
         WHERE e.account_id = head.account_id AND e.number > head.first_number
           AND (e.at >= now() - keep_days * interval '1 day' OR e.number = head.number
                OR e.number >= head.first_number + row_limit)
         ORDER BY e.number LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM culvert.audit_entries e WHERE e.account_id = head.account_id AND e.number < kept.number;
        UPDATE culvert.audit_heads h SET first_number = kept.number, first_previous = kept.previous
         WHERE h.account_id = head.account_id;
        most := greatest(most, kept.number - head.first_number);
    END LOOP;
    RETURN most;
END
$$;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    REVOKE ALL ON FUNCTION culvert.audit_sweep(integer, integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.audit_sweep(integer, integer) TO culvert_app;
    ALTER FUNCTION culvert.audit_sweep(integer, integer) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
