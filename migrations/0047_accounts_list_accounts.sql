-- older-binaries: work
-- All accounts, page by page, for `culvertd admin check-database`.

CREATE FUNCTION culvert.accounts_after(seen text, row_limit integer) RETURNS TABLE (account_id text, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT a.account_id, a.name FROM culvert.accounts a WHERE a.account_id > seen ORDER BY a.account_id LIMIT row_limit
$$;

GRANT CREATE ON SCHEMA culvert TO culvert_lookup;
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user);
    END IF;
    REVOKE ALL ON FUNCTION culvert.accounts_after(text, integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION culvert.accounts_after(text, integer) TO culvert_app;
    ALTER FUNCTION culvert.accounts_after(text, integer) OWNER TO culvert_lookup;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
REVOKE CREATE ON SCHEMA culvert FROM culvert_lookup;
