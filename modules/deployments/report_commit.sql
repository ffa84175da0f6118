-- Said again it is written once a day, so that it is known to be still spoken of.
-- name: commit_put
INSERT INTO commits AS t (account_id, revision, repo_url, author, message, commit_date)
SELECT a.account_id, :revision, :repo_url, :author, :message, :commit_date
  FROM accounts a
 WHERE a.account_id = :account_id
   AND NOT EXISTS (SELECT FROM commits c
                    WHERE c.account_id = :account_id AND c.revision = :revision AND c.repo_url = :repo_url
                      AND c.author IS NOT DISTINCT FROM coalesce(:author, c.author)
                      AND c.message IS NOT DISTINCT FROM coalesce(:message, c.message)
                      AND c.commit_date IS NOT DISTINCT FROM coalesce(:commit_date, c.commit_date)
                      AND c.last_seen_at > now() - interval '1 day')
ON CONFLICT (account_id, revision, repo_url) DO UPDATE
   SET author = coalesce(excluded.author, t.author), message = coalesce(excluded.message, t.message),
       commit_date = coalesce(excluded.commit_date, t.commit_date), last_seen_at = now()
