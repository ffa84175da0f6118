-- older-binaries: work
-- Revisions are searched by how they begin, in a table of their own. A revision changes with every
-- sync; among the searched texts it wrote each time to both GIN indexes, whose pending lists a
-- report then merged within its transaction.

CREATE TABLE culvert.application_revisions (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision text COLLATE "C" NOT NULL,   -- in lower case
    PRIMARY KEY (account_id, runtime, namespace, name)
);

ALTER TABLE culvert.applications NO FORCE ROW LEVEL SECURITY;
INSERT INTO culvert.application_revisions (account_id, runtime, namespace, name, revision)
SELECT a.account_id, a.runtime, a.namespace, a.name, lower(a.sync_revision)
  FROM culvert.applications a
 WHERE a.sync_revision <> '';
ALTER TABLE culvert.applications FORCE ROW LEVEL SECURITY;

CREATE INDEX application_revisions_begin ON culvert.application_revisions (account_id, revision);

ALTER TABLE culvert.application_revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.application_revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.application_revisions USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.application_revisions FOR ALL TO culvert_lookup USING (true) WITH CHECK (true);
GRANT SELECT ON culvert.application_revisions TO culvert_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.application_revisions TO culvert_lookup;

DO $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
END
$$;
GRANT CREATE ON SCHEMA culvert TO culvert_lookup;

CREATE FUNCTION culvert.application_revision_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.sync_revision IS NULL OR NEW.sync_revision = '' THEN
        DELETE FROM culvert.application_revisions r
         WHERE r.account_id = OLD.account_id AND r.runtime = OLD.runtime AND r.namespace = OLD.namespace
           AND r.name = OLD.name;
        RETURN NULL;
    END IF;
    INSERT INTO culvert.application_revisions AS r (account_id, runtime, namespace, name, revision)
    VALUES (NEW.account_id, NEW.runtime, NEW.namespace, NEW.name, lower(NEW.sync_revision))
    ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE SET revision = excluded.revision;
    RETURN NULL;
END
$$;

CREATE TRIGGER revision_added AFTER INSERT ON culvert.applications
    FOR EACH ROW WHEN (NEW.sync_revision <> '') EXECUTE FUNCTION culvert.application_revision_row();
CREATE TRIGGER revision_changed AFTER UPDATE ON culvert.applications
    FOR EACH ROW WHEN (OLD.sync_revision IS DISTINCT FROM NEW.sync_revision)
    EXECUTE FUNCTION culvert.application_revision_row();
CREATE TRIGGER revision_removed AFTER DELETE ON culvert.applications
    FOR EACH ROW EXECUTE FUNCTION culvert.application_revision_row();

-- A text that was written before keeps its revision until it changes: an index may find more than
-- the conditions of a list let through.
CREATE OR REPLACE FUNCTION culvert.application_search_row() RETURNS trigger
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
            lower(concat_ws(' ', NEW.name, NEW.repo_url, NEW.path, NEW.labels::text)), NEW.labels)
    ON CONFLICT (account_id, runtime, namespace, name) DO UPDATE SET text = excluded.text, labels = excluded.labels;
    RETURN NULL;
END
$$;

DROP TRIGGER search_changed ON culvert.applications;
CREATE TRIGGER search_changed AFTER UPDATE ON culvert.applications
    FOR EACH ROW
    WHEN (OLD.labels IS DISTINCT FROM NEW.labels OR OLD.repo_url IS DISTINCT FROM NEW.repo_url
          OR OLD.path IS DISTINCT FROM NEW.path)
    EXECUTE FUNCTION culvert.application_search_row();

CREATE OR REPLACE FUNCTION culvert.applications_with_text(needle text, row_limit bigint)
RETURNS TABLE (name text, runtime text, namespace text)
LANGUAGE sql STABLE ROWS 20 SECURITY DEFINER SET search_path = pg_catalog AS $$
    (SELECT s.name, s.runtime, s.namespace
       FROM culvert.application_search s
      WHERE s.account_id = current_setting('app.account_id', true)
        AND s.text LIKE '%' || replace(replace(replace(lower(needle), '!', '!!'), '%', '!%'), '_', '!_') || '%' ESCAPE '!'
      LIMIT row_limit)
     UNION ALL
    (SELECT r.name, r.runtime, r.namespace
       FROM culvert.application_revisions r
      WHERE r.account_id = current_setting('app.account_id', true)
        AND r.revision >= lower(needle) AND r.revision < lower(needle) || chr(1114111)
      LIMIT row_limit)
     LIMIT row_limit
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    REVOKE ALL ON FUNCTION culvert.application_revision_row() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.application_revision_row() TO culvert_app, culvert_lookup;
    ALTER FUNCTION culvert.application_revision_row() OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
