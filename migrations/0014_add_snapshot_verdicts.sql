-- older-binaries: work
-- What the end of a runtime's last snapshot came to, when it was applied by another replica than the one that holds the
-- runtime's session, which asks here: did the rows match, or is another snapshot needed?
CREATE TABLE culvert.snapshot_verdicts (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,    -- of the snapshot's end
    needs_resync boolean NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, runtime),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);
ALTER TABLE culvert.snapshot_verdicts ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.snapshot_verdicts FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.snapshot_verdicts USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.snapshot_verdicts TO culvert_app;
