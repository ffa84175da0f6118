-- older-binaries: work
-- Counts as before (migrations/0026), but in plpgsql, which keeps its plan for the session. A
-- function in SQL is planned anew by each call from a trigger.
DO $$
DECLARE
    is_superuser boolean := (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
BEGIN
    IF NOT is_superuser THEN
        EXECUTE format('GRANT culvert_lookup TO %I', current_user); -- whose function it is
    END IF;
    CREATE OR REPLACE FUNCTION culvert.storage_note(account text, runtime_name text, bytes bigint, rows bigint)
    RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $function$
    BEGIN
        IF bytes <> 0 OR rows <> 0 THEN
            INSERT INTO culvert.storage_usage_changes (account_id, runtime, bytes, rows)
            VALUES (account, runtime_name, storage_note.bytes, storage_note.rows);
        END IF;
    END
    $function$;
    IF NOT is_superuser THEN
        EXECUTE format('REVOKE culvert_lookup FROM %I', current_user);
    END IF;
END
$$;
