-- older-binaries: work
-- Objects that change far more often than anybody needs to know: a finding with the runtime.

CREATE TABLE culvert.noisy_objects (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    changes bigint NOT NULL, -- since first_at
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, runtime, api_group, kind, namespace, name),
    FOREIGN KEY (account_id, runtime) REFERENCES culvert.runtimes ON DELETE CASCADE
);
ALTER TABLE culvert.noisy_objects ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.noisy_objects FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.noisy_objects USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.noisy_objects TO culvert_app;
