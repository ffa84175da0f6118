-- older-binaries: work
-- How much each account and runtime stores, counted in the transaction that stores it, and the quotas on it
-- (docs/operations.md, "Storage quotas"). What is counted:
--
-- manifests       what they take compressed and 128 bytes each, by the runtime that wrote one first; no rows
-- applications,   what a report planned to write (stored_bytes, the rows beside it included) and what only HTTP said
-- resources       (source_bytes); a row while it is not deleted. The row of a deleted object counts in bytes until it is
--                 swept. Rows from before this migration count as 1,024 bytes until they are reported again.
-- operations      2,048 bytes and a row each
-- the others      the length of the row as text and 64 bytes, and a row: clusters, workflows, deployments, commits, manifest_sets,
--                 images, image_layers, image_registries, annotations, cloud_events, runtime_errors
--
-- A runtime of '' is the account itself. What a runtime wrote stays on its row after it was deleted, until it is swept.
CREATE TABLE culvert.storage_usage (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    bytes bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0, -- reports, for want of room, ever
    refused_at timestamptz,            -- the last one
    PRIMARY KEY (account_id, runtime)
) WITH (fillfactor = 50);

-- Reports update the row of their own runtime, which only one transaction does at a time (report_positions). Whoever
-- else stores or removes something adds a change here, so that nothing waits for anything; storage_usage_fold() adds
-- them up. Usage is the sum of both.
CREATE TABLE culvert.storage_usage_changes (
    account_id text COLLATE "C" NOT NULL,
    change bigint GENERATED ALWAYS AS IDENTITY,
    runtime text COLLATE "C" NOT NULL,
    bytes bigint NOT NULL,
    rows bigint NOT NULL,
    PRIMARY KEY (account_id, change)
);

-- Of one account; NULL: the platform's setting. runtime: of each of its runtimes.
ALTER TABLE culvert.accounts
    ADD COLUMN quota_bytes bigint CHECK (quota_bytes > 0),
    ADD COLUMN quota_rows bigint CHECK (quota_rows > 0),
    ADD COLUMN quota_runtime_bytes bigint CHECK (quota_runtime_bytes > 0),
    ADD COLUMN quota_runtime_rows bigint CHECK (quota_runtime_rows > 0);

-- `added`: by the statement that wrote the row last, bytes + rows * 2^40, for its RETURNING. What older binaries write
-- meanwhile is not counted: they leave the defaults.
ALTER TABLE culvert.manifests
    ADD COLUMN runtime text COLLATE "C" NOT NULL DEFAULT '', -- that counts it; '-': nobody does
    ADD COLUMN added bigint NOT NULL DEFAULT 0;
ALTER TABLE culvert.manifests ALTER COLUMN runtime SET DEFAULT '-';
ALTER TABLE culvert.applications
    ADD COLUMN stored_bytes integer NOT NULL DEFAULT 1024,
    ADD COLUMN source_bytes integer NOT NULL DEFAULT 0,
    ADD COLUMN added bigint NOT NULL DEFAULT 0;
ALTER TABLE culvert.applications ALTER COLUMN stored_bytes SET DEFAULT 0;
ALTER TABLE culvert.resources
    ADD COLUMN stored_bytes integer NOT NULL DEFAULT 1024,
    ADD COLUMN source_bytes integer NOT NULL DEFAULT 0,
    ADD COLUMN added bigint NOT NULL DEFAULT 0;
ALTER TABLE culvert.resources ALTER COLUMN stored_bytes SET DEFAULT 0;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['storage_usage', 'storage_usage_changes'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('CREATE POLICY lookup ON culvert.%I FOR ALL TO culvert_lookup USING (true) WITH CHECK (true)',
                       relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app, culvert_lookup', relation);
    END LOOP;
END
$$;

-- ---- what is used, and what is left ---------------------------------------------------------------------------------

-- Of one account, and of one of its runtimes ('': none). Limits that are not set are NULL. scope: whose limit is the
-- nearer one; left_bytes and left_rows: to it. reserve: how much what does not grow may still take beyond the limit,
-- until what it replaced is swept: a quarter of the quota.
CREATE FUNCTION culvert.storage_room(account text, runtime_name text, OUT used_bytes bigint, OUT used_rows bigint,
                                     OUT limit_bytes bigint, OUT limit_rows bigint, OUT runtime_used_bytes bigint,
                                     OUT runtime_used_rows bigint, OUT runtime_limit_bytes bigint,
                                     OUT runtime_limit_rows bigint, OUT scope text, OUT left_bytes bigint,
                                     OUT left_rows bigint, OUT reserve bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
DECLARE
    without constant bigint := 4611686018427387904;
    of_account bigint;
    of_runtime bigint;
BEGIN
    SELECT coalesce(a.quota_bytes, nullif(nullif(current_setting('app.quota_bytes', true), ''), '0')::bigint),
           coalesce(a.quota_rows, nullif(nullif(current_setting('app.quota_rows', true), ''), '0')::bigint),
           coalesce(a.quota_runtime_bytes,
                    nullif(nullif(current_setting('app.quota_runtime_bytes', true), ''), '0')::bigint),
           coalesce(a.quota_runtime_rows,
                    nullif(nullif(current_setting('app.quota_runtime_rows', true), ''), '0')::bigint)
      INTO limit_bytes, limit_rows, runtime_limit_bytes, runtime_limit_rows
      FROM culvert.accounts a
     WHERE a.account_id = account;
    SELECT coalesce(sum(u.bytes), 0), coalesce(sum(u.rows), 0),
           coalesce(sum(u.bytes) FILTER (WHERE u.runtime = runtime_name AND runtime_name <> ''), 0),
           coalesce(sum(u.rows) FILTER (WHERE u.runtime = runtime_name AND runtime_name <> ''), 0)
      INTO used_bytes, used_rows, runtime_used_bytes, runtime_used_rows
      FROM (SELECT s.runtime, s.bytes, s.rows FROM culvert.storage_usage s WHERE s.account_id = account
            UNION ALL
            SELECT c.runtime, c.bytes, c.rows FROM culvert.storage_usage_changes c WHERE c.account_id = account) u;
    of_account := coalesce(limit_bytes - used_bytes, without);
    of_runtime := CASE WHEN runtime_name <> '' THEN coalesce(runtime_limit_bytes - runtime_used_bytes, without)
                  ELSE without END;
    left_bytes := least(of_account, of_runtime);
    reserve := CASE WHEN left_bytes >= without THEN without
                    ELSE left_bytes + (CASE WHEN of_account <= of_runtime THEN limit_bytes ELSE runtime_limit_bytes END) / 4
               END;
    scope := CASE WHEN of_account <= of_runtime THEN 'account' ELSE 'runtime' END;
    of_account := coalesce(limit_rows - used_rows, without);
    of_runtime := CASE WHEN runtime_name <> '' THEN coalesce(runtime_limit_rows - runtime_used_rows, without)
                  ELSE without END;
    left_rows := least(of_account, of_runtime);
    IF left_rows <= 0 AND left_bytes > 0 THEN
        scope := CASE WHEN of_account <= of_runtime THEN 'account' ELSE 'runtime' END;
    END IF;
END
$$;

-- What is left, in a sentence.
CREATE FUNCTION culvert.storage_reason(account text, runtime_name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT format('storage quota of the %s: %s of %s bytes and %s of %s rows are left', r.scope, greatest(r.left_bytes, 0),
                  coalesce(CASE r.scope WHEN 'account' THEN r.limit_bytes ELSE r.runtime_limit_bytes END::text, 'any'),
                  greatest(r.left_rows, 0),
                  coalesce(CASE r.scope WHEN 'account' THEN r.limit_rows ELSE r.runtime_limit_rows END::text, 'any'))
      FROM culvert.storage_room(account, runtime_name) r
$$;

-- A transaction of reports begins to write for this runtime, whose row in report_positions it holds: at most so much.
-- Where that may not fit it ends here, and is to be made anew with each report looked at by itself.
CREATE FUNCTION culvert.storage_open(account text, runtime_name text, counter text, grow_bytes bigint, grow_rows bigint,
                                     reserve_bytes bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    room record;
BEGIN
    PERFORM set_config(counter, '0', true);
    IF grow_bytes = 0 AND grow_rows = 0 AND reserve_bytes = 0 THEN
        RETURN;
    END IF;
    SELECT * INTO room FROM culvert.storage_room(account, runtime_name);
    IF (grow_bytes > 0 AND grow_bytes > room.left_bytes) OR (grow_rows > 0 AND grow_rows > room.left_rows)
       OR (reserve_bytes > 0 AND grow_bytes + reserve_bytes > room.reserve) THEN
        RAISE EXCEPTION '%', culvert.storage_reason(account, runtime_name) USING ERRCODE = 'CQ001';
    END IF;
END
$$;

-- Adds up what was counted beside the reports, up to so many changes of all accounts. Returns how many there were.
CREATE FUNCTION culvert.storage_usage_fold(row_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH taken AS (
        DELETE FROM culvert.storage_usage_changes
         WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM culvert.storage_usage_changes c
                                  LIMIT row_limit FOR UPDATE SKIP LOCKED))
        RETURNING account_id, runtime, bytes, rows),
    added AS (
        INSERT INTO culvert.storage_usage AS u (account_id, runtime, bytes, rows)
        SELECT t.account_id, t.runtime, sum(t.bytes), sum(t.rows)
          FROM taken t
         GROUP BY t.account_id, t.runtime
         ORDER BY t.account_id, t.runtime -- as reports take these rows
        ON CONFLICT (account_id, runtime) DO UPDATE
           SET bytes = u.bytes + excluded.bytes, rows = u.rows + excluded.rows)
    SELECT count(*) FROM taken
$$;

-- ---- counting -------------------------------------------------------------------------------------------------------

CREATE FUNCTION culvert.storage_note(account text, runtime_name text, bytes bigint, rows bigint) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    INSERT INTO culvert.storage_usage_changes (account_id, runtime, bytes, rows)
    SELECT account, runtime_name, bytes, rows WHERE bytes <> 0 OR rows <> 0
$$;

-- Of one row. Arguments: whether the runtime or the account counts it; whether what grows is refused when there is no
-- room, which reports have asked about before; and its bytes where they are the same for each row.
CREATE FUNCTION culvert.storage_count_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
SET bytea_output = 'hex' AS $$
DECLARE
    account text;
    payer text := '';
    added bigint := 0;
    added_rows bigint := 0;
    room record;
BEGIN
    IF TG_OP <> 'DELETE' THEN
        account := NEW.account_id;
        IF TG_ARGV[0] = 'runtime' THEN
            payer := NEW.runtime;
        END IF;
        added := coalesce(TG_ARGV[2]::bigint, 64 + octet_length(NEW::text));
        added_rows := 1;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        account := OLD.account_id;
        IF TG_ARGV[0] = 'runtime' THEN
            payer := OLD.runtime;
        END IF;
        added := added - coalesce(TG_ARGV[2]::bigint, 64 + octet_length(OLD::text));
        added_rows := added_rows - 1;
    END IF;
    IF TG_ARGV[1] = 'refuse' AND (added > 0 OR added_rows > 0) THEN
        SELECT * INTO room FROM culvert.storage_room(account, payer);
        IF added > room.left_bytes OR added_rows > room.left_rows THEN
            PERFORM culvert.storage_refuse(account, payer);
        END IF;
    END IF;
    PERFORM culvert.storage_note(account, payer, added, added_rows);
    RETURN NULL;
END
$$;
CREATE FUNCTION culvert.storage_refuse(account text, runtime_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION '%', culvert.storage_reason(account, runtime_name) USING ERRCODE = 'CQ001';
END
$$;

-- Rows that reports count themselves are counted out here, whoever removes them.
CREATE FUNCTION culvert.storage_count_gone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF TG_RELNAME = 'manifests' THEN
        INSERT INTO culvert.storage_usage_changes (account_id, runtime, bytes, rows)
        SELECT g.account_id, g.runtime, -sum(128 + octet_length(g.content)), 0
          FROM gone g
         WHERE g.runtime <> '-'
         GROUP BY g.account_id, g.runtime;
    ELSE
        INSERT INTO culvert.storage_usage_changes (account_id, runtime, bytes, rows)
        SELECT g.account_id, g.runtime, -sum(g.stored_bytes + g.source_bytes), -count(*) FILTER (WHERE NOT g.is_deleted)
          FROM gone g
         GROUP BY g.account_id, g.runtime;
    END IF;
    RETURN NULL;
END
$$;

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT * FROM (VALUES ('manifests'), ('applications'), ('resources')) v (relation) LOOP
        EXECUTE format('CREATE TRIGGER storage_gone AFTER DELETE ON culvert.%I REFERENCING OLD TABLE AS gone
                        FOR EACH STATEMENT EXECUTE FUNCTION culvert.storage_count_gone()', one.relation);
    END LOOP;
    FOR one IN SELECT * FROM (VALUES ('clusters', 'runtime', 'count'), ('workflows', 'runtime', 'count'),
                                     ('deployments', 'runtime', 'count'), ('commits', 'account', 'count'),
                                     ('images', 'account', 'refuse'), ('image_layers', 'account', 'refuse'),
                                     ('image_registries', 'account', 'refuse'), ('annotations', 'account', 'refuse'),
                                     ('cloud_events', 'runtime', 'refuse'), ('runtime_errors', 'runtime', 'refuse'))
                         v (relation, payer, excess) LOOP
        EXECUTE format('CREATE TRIGGER storage AFTER INSERT OR UPDATE OR DELETE ON culvert.%I
                        FOR EACH ROW EXECUTE FUNCTION culvert.storage_count_row(%L, %L)', one.relation, one.payer,
                       one.excess);
    END LOOP;
END
$$;
CREATE TRIGGER storage AFTER INSERT OR DELETE ON culvert.manifest_sets
    FOR EACH ROW EXECUTE FUNCTION culvert.storage_count_row('account', 'count');
CREATE TRIGGER storage AFTER INSERT OR DELETE ON culvert.application_operations
    FOR EACH ROW EXECUTE FUNCTION culvert.storage_count_row('runtime', 'count', '2048');

-- Counts anew what one account stores; whoever calls it has named the account (row-level security). Reports of the
-- account wait meanwhile.
CREATE FUNCTION culvert.storage_recount(account text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
SET bytea_output = 'hex' AS $$
BEGIN
    PERFORM FROM culvert.report_positions p WHERE p.account_id = account ORDER BY p.runtime FOR UPDATE;
    PERFORM FROM culvert.storage_usage u WHERE u.account_id = account ORDER BY u.runtime FOR UPDATE;
    UPDATE culvert.manifests SET runtime = '' WHERE account_id = account AND runtime = '-';
    -- One statement, one snapshot: what is stored meanwhile adds its change behind this.
    WITH folded AS (DELETE FROM culvert.storage_usage_changes WHERE account_id = account),
    stored AS (
        SELECT m.runtime, sum(128 + octet_length(m.content)) AS bytes, 0 AS rows
          FROM culvert.manifests m WHERE m.account_id = account GROUP BY 1
        UNION ALL
        SELECT a.runtime, sum(a.stored_bytes + a.source_bytes), count(*) FILTER (WHERE NOT a.is_deleted)
          FROM culvert.applications a WHERE a.account_id = account GROUP BY 1
        UNION ALL
        SELECT r.runtime, sum(r.stored_bytes + r.source_bytes), count(*) FILTER (WHERE NOT r.is_deleted)
          FROM culvert.resources r WHERE r.account_id = account GROUP BY 1
        UNION ALL
        SELECT o.runtime, count(*) * 2048, count(*)
          FROM culvert.application_operations o WHERE o.account_id = account GROUP BY 1
        UNION ALL
        SELECT t.runtime, sum(64 + octet_length(t::text)), count(*) FROM culvert.clusters t WHERE t.account_id = account GROUP BY 1
        UNION ALL
        SELECT t.runtime, sum(64 + octet_length(t::text)), count(*) FROM culvert.workflows t WHERE t.account_id = account GROUP BY 1
        UNION ALL
        SELECT t.runtime, sum(64 + octet_length(t::text)), count(*) FROM culvert.deployments t WHERE t.account_id = account GROUP BY 1
        UNION ALL
        SELECT t.runtime, sum(64 + octet_length(t::text)), count(*) FROM culvert.cloud_events t WHERE t.account_id = account GROUP BY 1
        UNION ALL
        SELECT t.runtime, sum(64 + octet_length(t::text)), count(*)
          FROM culvert.runtime_errors t WHERE t.account_id = account GROUP BY 1
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.commits t WHERE t.account_id = account
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.manifest_sets t WHERE t.account_id = account
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.images t WHERE t.account_id = account
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.image_layers t WHERE t.account_id = account
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.image_registries t WHERE t.account_id = account
        UNION ALL
        SELECT '', sum(64 + octet_length(t::text)), count(*) FROM culvert.annotations t WHERE t.account_id = account),
    summed AS (
        SELECT s.runtime, coalesce(sum(s.bytes), 0)::bigint AS bytes, sum(s.rows)::bigint AS rows FROM stored s GROUP BY 1),
    forgotten AS (
        UPDATE culvert.storage_usage u
           SET bytes = 0, rows = 0
         WHERE u.account_id = account AND NOT EXISTS (SELECT FROM summed s WHERE s.runtime = u.runtime))
    INSERT INTO culvert.storage_usage AS u (account_id, runtime, bytes, rows)
    SELECT account, s.runtime, s.bytes, s.rows FROM summed s ORDER BY s.runtime
    ON CONFLICT (account_id, runtime) DO UPDATE SET bytes = excluded.bytes, rows = excluded.rows;
END
$$;

-- The weeks of events that are dropped are counted out first. Otherwise as in migrations/0006.
CREATE OR REPLACE FUNCTION culvert.cloud_events_partitions(keep_days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' SET TimeZone = 'UTC'
SET DateStyle = 'ISO, YMD' SET bytea_output = 'hex' AS $$
DECLARE
    week timestamptz;
    name text;
    dropped integer := 0;
BEGIN
    IF keep_days < 7 THEN
        RAISE EXCEPTION 'events are kept for at least 7 days' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(1131771507, 2) THEN
        RETURN 0; -- another replica is at it
    END IF;
    FOR i IN -2..3 LOOP
        week := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + i * interval '7 days';
        name := 'cloud_events_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD');
        CONTINUE WHEN to_regclass('culvert.' || name) IS NOT NULL;
        EXECUTE format('CREATE TABLE culvert.%I (LIKE culvert.cloud_events INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE culvert.%I ALTER COLUMN content SET STORAGE EXTERNAL', name);
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE culvert.cloud_events ATTACH PARTITION culvert.%I FOR VALUES FROM (%L) TO (%L)',
                       name, week, week + interval '7 days');
    END LOOP;
    FOR name IN
        SELECT c.relname
          FROM pg_inherits i
          JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'culvert.cloud_events'::regclass AND c.relname ~ '^cloud_events_[0-9]{8}$'
           AND to_timestamp(right(c.relname, 8), 'YYYYMMDD') + interval '7 days' < now() - keep_days * interval '1 day'
         ORDER BY c.relname
    LOOP
        EXECUTE format('LOCK TABLE culvert.%I IN ACCESS EXCLUSIVE MODE', name);
        EXECUTE format('ALTER TABLE culvert.%I NO FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('SELECT culvert.storage_note(e.account_id, e.runtime, e.bytes, e.rows)
                          FROM (SELECT t.account_id, t.runtime, (-sum(64 + octet_length(t::text)))::bigint AS bytes,
                               -count(*) AS rows
                                  FROM culvert.%I t GROUP BY 1, 2) e', name);
        EXECUTE format('DROP TABLE culvert.%I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
    function_name text;
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    FOREACH function_name IN ARRAY ARRAY['storage_room(text, text)', 'storage_reason(text, text)',
                                         'storage_refuse(text, text)',
                                         'storage_open(text, text, text, bigint, bigint, bigint)',
                                         'storage_recount(text)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, culvert_lookup', function_name);
    END LOOP;
    FOREACH function_name IN ARRAY ARRAY['storage_usage_fold(integer)', 'storage_note(text, text, bigint, bigint)',
                                         'storage_count_row()', 'storage_count_gone()'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    GRANT EXECUTE ON FUNCTION culvert.storage_usage_fold(integer) TO culvert_app;
    -- For the weeks that are dropped, and the triggers of partitions that are made.
    EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.storage_note(text, text, bigint, bigint),
                    culvert.storage_count_row() TO %I', current_user);
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;

-- ---- what is stored already -----------------------------------------------------------------------------------------

DO $$
DECLARE
    relations constant text[] := ARRAY['accounts', 'manifests', 'applications', 'resources', 'application_operations',
                                       'clusters', 'workflows', 'deployments', 'cloud_events', 'runtime_errors',
                                       'commits', 'manifest_sets', 'images', 'image_layers', 'image_registries',
                                       'annotations', 'report_positions', 'storage_usage',
                                       'storage_usage_changes'];
    relation text;
BEGIN
    FOREACH relation IN ARRAY relations LOOP
        EXECUTE format('ALTER TABLE culvert.%I NO FORCE ROW LEVEL SECURITY', relation);
    END LOOP;
    PERFORM culvert.storage_recount(a.account_id) FROM culvert.accounts a;
    FOREACH relation IN ARRAY relations LOOP
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
    END LOOP;
END
$$;
