-- older-binaries: work
-- Private keys of runtimes' Sealed Secrets, encrypted with a key that is not in the database.

CREATE TABLE culvert.sealing_keys (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL CHECK (key_id ~ '^[0-9a-f]{32}$'),
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime, key_id),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);

ALTER TABLE culvert.sealing_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.sealing_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.sealing_keys USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.sealing_keys TO culvert_app;
