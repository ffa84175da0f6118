-- older-binaries: work
-- Teams of an account, and users that are programs (service users), which sign in with keys alone.

ALTER TABLE culvert.users ADD COLUMN is_service boolean NOT NULL DEFAULT false;

CREATE TABLE culvert.teams (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    team_id text COLLATE "C" NOT NULL CHECK (team_id ~ '^[0-9a-f]{24}$'),
    name text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, team_id)
);
CREATE UNIQUE INDEX teams_name ON culvert.teams (account_id, name);

CREATE TABLE culvert.team_members (
    account_id text COLLATE "C" NOT NULL,
    team_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (account_id, team_id, user_id),
    FOREIGN KEY (account_id, team_id) REFERENCES culvert.teams ON DELETE CASCADE,
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE
);
CREATE INDEX team_members_user ON culvert.team_members (account_id, user_id);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['teams', 'team_members'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
