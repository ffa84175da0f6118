-- older-binaries: work
-- An operation has two entries in the audit log: who asked for what, and how it ended. What it went
-- through between them is in its own row.

CREATE FUNCTION culvert.operation_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    before jsonb := '{}';
    after jsonb;
BEGIN
    IF TG_OP = 'INSERT' THEN
        after := to_jsonb(NEW) - ARRAY['request_sha256', 'epoch', 'attempts', 'state'];
    ELSE
        before := jsonb_build_object('state', OLD.state);
        after := jsonb_build_object('state', NEW.state, 'code', NEW.code, 'message', NEW.message);
    END IF;
    PERFORM culvert.audit_append(NEW.account_id, CASE TG_OP WHEN 'INSERT' THEN 'create' ELSE 'update' END, TG_TABLE_NAME,
                                 NEW.operation_id, culvert.audit_patch(before, jsonb_strip_nulls(after)),
                                 CASE TG_OP WHEN 'INSERT' THEN 'done' ELSE lower(NEW.state) END);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION culvert.operation_audit() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.operation_audit() TO culvert_app, culvert_lookup;

CREATE TRIGGER audit_asked AFTER INSERT ON culvert.operations
    FOR EACH ROW EXECUTE FUNCTION culvert.operation_audit();
CREATE TRIGGER audit_ended AFTER UPDATE OF state ON culvert.operations
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND NEW.state IN ('DONE', 'FAILED', 'EXPIRED', 'UNKNOWN', 'CANCELLED'))
    EXECUTE FUNCTION culvert.operation_audit();

-- operations_expire() ends those of all accounts, and adds their entries.
GRANT INSERT ON culvert.audit_entries TO culvert_lookup;
GRANT INSERT, UPDATE (number, hash) ON culvert.audit_heads TO culvert_lookup;
