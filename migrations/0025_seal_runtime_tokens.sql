-- older-binaries: work
-- Hashes of runtime tokens sign identities: they are encrypted by a key that is not in the database (storage/token_seal.h),
-- 32 bytes in the clear or 76 encrypted. Older binaries do not know such tokens; what they read in place of the hash is
-- one that no secret has.

ALTER TABLE culvert.runtime_tokens DROP CONSTRAINT runtime_tokens_secret_sha256_check;
ALTER TABLE culvert.runtime_tokens
    ADD CONSTRAINT runtime_tokens_secret_sha256_check CHECK (length(secret_sha256) IN (32, 76));

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
END
$$;

-- For older binaries alone (migrations/0002); what is read now is runtime_tokens_changed().
CREATE OR REPLACE FUNCTION culvert.runtime_tokens_since(seen bigint, row_limit integer)
RETURNS TABLE (change bigint, token_id text, account_id text, runtime text, runtime_id text, secret_sha256 bytea,
               is_revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.change, t.token_id, t.account_id, t.runtime, t.runtime_id,
           CASE WHEN length(t.secret_sha256) = 32 THEN t.secret_sha256 ELSE sha256(t.secret_sha256) END,
           t.revoked_at IS NOT NULL
      FROM culvert.runtime_tokens t
     WHERE t.change > seen
     ORDER BY t.change
     LIMIT row_limit
$$;

DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
