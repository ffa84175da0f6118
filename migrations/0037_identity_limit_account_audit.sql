-- older-binaries: work
-- Of accounts, settings are audited; sweeps note in the same row how far they are.

DROP TRIGGER audit ON culvert.accounts;
CREATE TRIGGER audit AFTER UPDATE OF name, git_provider, git_api_url, shared_config_repo, history_keep_days, quota_bytes, quota_rows,
    quota_runtime_bytes, quota_runtime_rows
    ON culvert.accounts
    FOR EACH ROW EXECUTE FUNCTION culvert.audit_row('account_id');
