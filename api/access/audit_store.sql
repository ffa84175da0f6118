-- fragment: audit_node
json_build_object(
    'number', e.number, 'at', to_char(e.at, :{rfc3339}), 'action', e.action, 'entity', e.entity, 'entityId', e.entity_id,
    'patch', e.patch::text, 'outcome', e.outcome, 'hash', encode(e.hash, 'hex'),
    'actor', CASE WHEN e.actor IS NOT NULL THEN json_build_object(
        'kind', e.actor ->> 'kind', 'id', e.actor ->> 'id', 'name', e.actor ->> 'name', 'method', e.actor ->> 'method',
        'credential', e.actor ->> 'credential', 'remote', e.actor ->> 'remote',
        'requestId', e.actor ->> 'requestId') END)

-- Newest first. What is empty does not filter.
-- name: audit_list
SELECT coalesce(json_agg(node), '[]'::json)
  FROM (SELECT :{audit_node} AS node
          FROM audit_entries e
         WHERE e.account_id = :account_id AND (:before = '' OR e.number < nullif(:before, '')::bigint)
           AND (:entity = '' OR e.entity = :entity) AND (:entity_id = '' OR e.entity_id = :entity_id)
           AND (:action = '' OR e.action = :action) AND (:actor_id = '' OR e.actor ->> 'id' = :actor_id)
           AND (:since = '' OR e.at >= nullif(:since, '')::timestamptz)
           AND (:until = '' OR e.at < nullif(:until, '')::timestamptz)
         ORDER BY e.number DESC LIMIT :limit::integer) AS found

-- Oldest first, as JSON Lines; the number of the last one in front, 0: there are no more.
-- name: audit_export
SELECT json_build_object('last', coalesce(max(number), 0), 'lines', coalesce(string_agg(line, chr(10) ORDER BY number), ''))
  FROM (SELECT e.number, (:{audit_node}::jsonb || jsonb_build_object('patch', e.patch,
                                                                      'previous', encode(e.previous, 'hex')))::text AS line
          FROM audit_entries e
         WHERE e.account_id = :account_id AND e.number > :after::bigint
         ORDER BY e.number LIMIT :limit::integer) AS page

-- first_bad: the first entry that is not what its hash was made of, or does not follow the one
-- before it; null: the chain is whole, from the oldest entry that is kept to the head.
-- name: audit_verify
WITH chain AS (
    SELECT e.number, e.hash, e.hash = audit_hash(e) AS is_whole,
           e.number = coalesce(lag(e.number) OVER turn + 1, h.first_number) AS follows,
           e.previous = coalesce(lag(e.hash) OVER turn, h.first_previous) AS is_linked
      FROM audit_entries e
      LEFT JOIN audit_heads h ON h.account_id = e.account_id
     WHERE e.account_id = :account_id
    WINDOW turn AS (ORDER BY e.number)),
found AS (
    SELECT count(*) AS entries, max(number) AS last,
           min(number) FILTER (WHERE (is_whole AND follows AND is_linked) IS NOT TRUE) AS first_bad
      FROM chain),
head AS (SELECT number, hash FROM audit_heads WHERE account_id = :account_id)
SELECT json_build_object(
    'entries', f.entries, 'head', encode(h.hash, 'hex'),
    'firstBad', CASE WHEN f.first_bad IS NOT NULL THEN f.first_bad
                     WHEN f.entries = 0 AND h.number IS NULL THEN NULL
                     WHEN h.number IS NULL THEN 1
                     WHEN f.last IS DISTINCT FROM h.number THEN least(coalesce(f.last, 0), h.number) + 1
                     WHEN h.hash <> (SELECT c.hash FROM chain c WHERE c.number = h.number) THEN h.number END)
  FROM found f
  LEFT JOIN head h ON true

-- name: audit_sweep
SELECT audit_sweep(:limit::integer, :keep_days::integer)
