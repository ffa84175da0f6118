-- older-binaries: work
-- What lists of applications are searched by, beside them: row-level security keeps an index of texts
-- or labels from being used, because LIKE and @> are not leakproof. Functions of culvert_lookup find
-- the keys there, of the session's account alone. It is written when a text or a label changes, not
-- with each report.

CREATE TABLE culvert.application_search (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,   -- name, repository, path, revision and labels, in lower case
    labels jsonb NOT NULL,
    PRIMARY KEY (account_id, runtime, namespace, name)
);

ALTER TABLE culvert.applications NO FORCE ROW LEVEL SECURITY;
INSERT INTO culvert.application_search (account_id, runtime, namespace, name, text, labels)
SELECT a.account_id, a.runtime, a.namespace, a.name,
       lower(concat_ws(' ', a.name, a.repo_url, a.path, a.sync_revision, a.labels::text)), a.labels
  FROM culvert.applications a;
ALTER TABLE culvert.applications FORCE ROW LEVEL SECURITY;

-- The pending list is small, because every search reads it.
CREATE INDEX application_search_labels ON culvert.application_search USING gin (labels)
    WITH (gin_pending_list_limit = 256);

-- Substrings are found by trigrams where PostgreSQL has the extension and the owner may create it.
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA culvert;
EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
    RAISE NOTICE 'pg_trgm is not available: text is searched without an index';
END
$$;
DO $$
DECLARE
    place text := (SELECT n.nspname
                     FROM pg_catalog.pg_extension e
                     JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
                    WHERE e.extname = 'pg_trgm');
BEGIN
    IF place IS NOT NULL THEN
        EXECUTE format('CREATE INDEX application_search_text ON culvert.application_search USING gin (text %I.gin_trgm_ops)
                        WITH (gin_pending_list_limit = 256)', place);
    END IF;
END
$$;

ALTER TABLE culvert.application_search ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.application_search FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.application_search USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.application_search FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT ON culvert.application_search TO culvert_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.application_search TO culvert_lookup;

CREATE FUNCTION culvert.application_search_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM culvert.application_search s
         WHERE s.account_id = OLD.account_id AND s.runtime = OLD.runtime AND s.namespace = OLD.namespace
           AND s.name = OLD.name;
        RETURN NULL;
    END IF;
    INSERT INTO culvert.application_search AS s (account_id, runtime, namespace, name, text, labels)
    VALUES (NEW.account_id, NEW.runtime, NEW.namespace, NEW.name,
            lower(concat_ws(' ', NEW.name, NEW.repo_url, NEW.path, NEW.sync_revision, NEW.labels::text)), NEW.labels)
    ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE SET text = excluded.text, labels = excluded.labels;
    RETURN NULL;
END
$$;

CREATE TRIGGER search_added AFTER INSERT ON culvert.applications
    FOR EACH ROW EXECUTE FUNCTION culvert.application_search_row();
CREATE TRIGGER search_changed AFTER UPDATE ON culvert.applications
    FOR EACH ROW
    WHEN (OLD.labels IS DISTINCT FROM NEW.labels OR OLD.repo_url IS DISTINCT FROM NEW.repo_url
          OR OLD.path IS DISTINCT FROM NEW.path OR OLD.sync_revision IS DISTINCT FROM NEW.sync_revision)
    EXECUTE FUNCTION culvert.application_search_row();
CREATE TRIGGER search_removed AFTER DELETE ON culvert.applications
    FOR EACH ROW EXECUTE FUNCTION culvert.application_search_row();

-- Both stop at row_limit; NULL: none. A row may come twice. ROWS: whoever asks for few is to be
-- served from indexes.
CREATE FUNCTION culvert.applications_with_text(needle text, row_limit bigint)
RETURNS TABLE (name text, runtime text, namespace text)
LANGUAGE sql STABLE ROWS 20 SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT s.name, s.runtime, s.namespace
      FROM culvert.application_search s
     WHERE s.account_id = current_setting('app.account_id', true)
       AND s.text LIKE '%' || replace(replace(replace(lower(needle), '!', '!!'), '%', '!%'), '_', '!_') || '%' ESCAPE '!'
     LIMIT row_limit
$$;

-- A label as KEY or KEY=VALUE; any of them will do.
CREATE FUNCTION culvert.applications_with_labels(wanted text[], row_limit bigint)
RETURNS TABLE (name text, runtime text, namespace text)
LANGUAGE sql STABLE ROWS 20 SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT s.name, s.runtime, s.namespace
      FROM unnest(wanted) w
      JOIN culvert.application_search s ON s.labels ? w
     WHERE s.account_id = current_setting('app.account_id', true) AND strpos(w, '=') = 0
     UNION ALL
    SELECT s.name, s.runtime, s.namespace
      FROM unnest(wanted) w
      JOIN culvert.application_search s
        ON s.labels @> jsonb_build_object(split_part(w, '=', 1), substr(w, strpos(w, '=') + 1))
     WHERE s.account_id = current_setting('app.account_id', true) AND strpos(w, '=') > 0
     LIMIT row_limit
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
    FOREACH function_name IN ARRAY ARRAY['application_search_row()', 'applications_with_text(text, bigint)',
                                         'applications_with_labels(text[], bigint)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION culvert.%s FROM PUBLIC', function_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION culvert.%s TO culvert_app, culvert_lookup', function_name);
        EXECUTE format('ALTER FUNCTION culvert.%s OWNER TO culvert_lookup', function_name);
    END LOOP;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
