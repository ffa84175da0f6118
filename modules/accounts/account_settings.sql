-- Once a runtime has connected it reads its configuration from there, so what is set stays.
-- name: account_settings_put
UPDATE accounts a
   SET git_provider = :git_provider, git_api_url = :git_api_url, shared_config_repo = :repo
 WHERE a.account_id = :account_id
   AND (a.shared_config_repo IS NULL
        OR (a.git_provider, a.git_api_url, a.shared_config_repo)
           IS NOT DISTINCT FROM (:git_provider, :git_api_url, :repo)
        OR NOT EXISTS (SELECT FROM runtimes r
                        WHERE r.account_id = :account_id AND r.first_session_at IS NOT NULL))

-- name: account_settings_reset
UPDATE accounts a
   SET git_provider = NULL, git_api_url = NULL, shared_config_repo = NULL
 WHERE a.account_id = :account_id
   AND (a.shared_config_repo IS NULL
        OR NOT EXISTS (SELECT FROM runtimes r
                        WHERE r.account_id = :account_id AND r.first_session_at IS NOT NULL))

-- name: account_settings_suggest
UPDATE accounts a
   SET shared_config_repo = coalesce(a.shared_config_repo, :repo)
 WHERE a.account_id = :account_id
RETURNING json_build_object('repo', a.shared_config_repo)
