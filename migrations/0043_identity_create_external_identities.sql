-- older-binaries: work
-- Who a user is at an identity provider: by issuer and subject, never by name or mail address.

CREATE TABLE culvert.external_identities (
    account_id text COLLATE "C" NOT NULL,
    -- SHA-256 of issuer and subject.
    identity_id text COLLATE "C" NOT NULL CHECK (identity_id ~ '^[0-9a-f]{64}$'),
    user_id text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL CHECK (length(provider) <= 40),
    issuer text COLLATE "C" NOT NULL CHECK (length(issuer) <= 500),
    subject text COLLATE "C" NOT NULL CHECK (subject <> '' AND length(subject) <= 255),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, identity_id),
    FOREIGN KEY (account_id, user_id) REFERENCES culvert.users ON DELETE CASCADE
);
CREATE INDEX external_identities_user ON culvert.external_identities (account_id, user_id);
ALTER TABLE culvert.external_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.external_identities FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.external_identities USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.external_identities TO culvert_app;
CREATE TRIGGER audit AFTER INSERT OR DELETE ON culvert.external_identities
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('identity_id');
