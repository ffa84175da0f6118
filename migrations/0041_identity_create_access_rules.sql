-- older-binaries: work
-- Rules: what teams of an account may do with which entities (docs/security.md, "Rules"), and the
-- account's default. Older binaries apply none.

CREATE TABLE culvert.access_settings (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    default_access text COLLATE "C" NOT NULL DEFAULT 'ALLOW' CHECK (default_access IN ('ALLOW', 'DENY')),
    change bigint NOT NULL DEFAULT 1, -- grows with each change of the default and of the rules
    PRIMARY KEY (account_id)
);

CREATE TABLE culvert.access_rules (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    rule_id text COLLATE "C" NOT NULL CHECK (rule_id ~ '^[0-9a-f]{24}$'),
    entity_type text COLLATE "C" NOT NULL CHECK (length(entity_type) <= 40),
    effect text COLLATE "C" NOT NULL CHECK (effect IN ('ALLOW', 'DENY')),
    teams text[] COLLATE "C" NOT NULL,
    tags text[] COLLATE "C" NOT NULL DEFAULT '{}',
    actions text[] COLLATE "C" NOT NULL,
    attributes jsonb NOT NULL DEFAULT '[]', -- [{name, key, value}]
    combinations integer NOT NULL,          -- of the values of its attributes
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, rule_id)
);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['access_settings', 'access_rules'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
CREATE POLICY lookup ON culvert.access_settings FOR SELECT TO culvert_lookup USING (true);
CREATE POLICY lookup ON culvert.team_members FOR SELECT TO culvert_lookup USING (true);
GRANT SELECT ON culvert.access_settings, culvert.team_members TO culvert_lookup;

-- With an account that is deleted its settings go, too.
CREATE FUNCTION culvert.access_rules_changed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO culvert.access_settings (account_id) VALUES (NEW.account_id) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE culvert.access_settings s SET change = s.change + 1
     WHERE s.account_id = CASE TG_OP WHEN 'DELETE' THEN OLD.account_id ELSE NEW.account_id END;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION culvert.access_rules_changed() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.access_rules_changed() TO culvert_app;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON culvert.access_rules
    FOR EACH ROW EXECUTE FUNCTION culvert.access_rules_changed();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON culvert.access_rules
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('rule_id');
CREATE TRIGGER audit AFTER UPDATE OF default_access ON culvert.access_settings
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('account_id');

-- Names the rules that apply to a user: users with the same name have the same rules, and a change
-- of the rules or of the user's teams gives another one. NULL: the account never had rules.
CREATE FUNCTION culvert.access_rule_set(account text, wanted text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT s.change || '-' || md5(coalesce((SELECT string_agg(m.team_id, ' ' ORDER BY m.team_id)
                                              FROM culvert.team_members m
                                             WHERE m.account_id = account AND m.user_id = wanted), ''))
      FROM culvert.access_settings s
     WHERE s.account_id = account
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    REVOKE ALL ON FUNCTION culvert.access_rule_set(text, text) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.access_rule_set(text, text) TO culvert_app;
    ALTER FUNCTION culvert.access_rule_set(text, text) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
