-- older-binaries: work
-- What the event sources of a runtime say besides the state of objects: the events that they hand on (CloudEvents 1.0:
-- pushes, pull requests, calendar ticks) and the errors they meet.

-- Kept by the week, so that old ones go with their partition and not row by row. occurred_at is the event's own time,
-- which a repetition repeats; one whose clock is far off is filed under the beginning of the week it came in.
CREATE TABLE culvert.cloud_events (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    occurred_at timestamptz NOT NULL,
    event_key bytea NOT NULL CHECK (length(event_key) = 32), -- SHA-256 of source and id, which name an event
    event_id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    subject text COLLATE "C",
    stated_at timestamptz,
    encoding smallint NOT NULL CHECK (encoding IN (0, 1)), -- 0 plain, 1 zstd
    plain_bytes integer NOT NULL,
    content bytea NOT NULL, -- the event as it came, without its secrets
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, occurred_at, event_key),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
) PARTITION BY RANGE (occurred_at);

-- One row a distinct text; the newest 200 of a runtime stay.
CREATE TABLE culvert.runtime_errors (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    error_key bytea NOT NULL CHECK (length(error_key) = 32), -- SHA-256 of origin, level and message
    origin text COLLATE "C" NOT NULL CHECK (origin IN ('EVENT_SOURCE', 'INSTALLATION')),
    level text COLLATE "C" NOT NULL CHECK (level IN ('ERROR', 'WARNING')),
    message text COLLATE "C" NOT NULL,
    first_received_at timestamptz NOT NULL DEFAULT now(),
    last_received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, error_key),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['cloud_events', 'runtime_errors'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;

-- Makes the weeks around now and drops those that ended more than keep_days ago; returns how many it dropped. For all
-- accounts. A new week is made beside the table and then attached, and nothing waits for locks: what is not to be had
-- within two seconds is left for the next time, while writers go on. Less than a week is refused: whoever has stolen the
-- login must not be able to forget everything at once.
CREATE FUNCTION culvert.cloud_events_partitions(keep_days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' AS $$
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
        EXECUTE format('DROP TABLE culvert.%I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
REVOKE ALL ON FUNCTION culvert.cloud_events_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.cloud_events_partitions(integer) TO culvert_app;
SELECT culvert.cloud_events_partitions(7);
