-- What CI told of an image that runs (x): by its name, by the digest in it, or by the registry that it was pushed to.
-- fragment: image_use_binary
(SELECT jsonb_build_object('id', t.image_id) || t.fields || jsonb_build_object('accountId', t.account_id)
   FROM images t
   LEFT JOIN image_registries g ON g.account_id = t.account_id AND g.image_id = t.image_id
  WHERE t.account_id = :account_id
    AND (t.image_name = x.image OR x.image IN (g.image_name, g.domain || '/' || g.image_name)
         OR nullif(split_part(x.image, '@', 2), '') IN (t.repo_digest, g.repo_digest))
  ORDER BY t.updated_at DESC, t.image_id
  LIMIT 1)

-- fragment: image_use_node
jsonb_build_object(
    'name', x.image, 'repository', regexp_replace(split_part(x.image, '@', 1), ':[^:/]*$', ''),
    'tag', substring(split_part(x.image, '@', 1) FROM ':([^:/]*)$'), 'digest', nullif(split_part(x.image, '@', 2), ''),
    'runningSince', to_char(x.since, :{rfc3339}), 'usesCount', x.uses,
    'uses', (SELECT coalesce(json_agg(json_build_object(
                        'runtime', u.runtime, 'cluster', u.cluster, 'kind', u.kind, 'namespace', u.namespace,
                        'name', u.name, 'applicationName', nullif(u.application_name, ''),
                        'applicationNamespace', nullif(u.application_namespace, ''),
                        'since', to_char(u.since, :{rfc3339}))
                        ORDER BY u.since, u.runtime, u.cluster, u.namespace, u.name), '[]'::json)
               FROM (SELECT u.*, a.application_name, a.application_namespace
                       FROM image_uses u
                       JOIN :{image_use_resource}
                      WHERE u.account_id = :account_id AND u.image = x.image AND u.image <> '' AND :{image_use_filter}
                      ORDER BY u.since, u.runtime, u.cluster, u.namespace, u.name
                      LIMIT 500) u),
    'binary', :{image_use_binary})

-- fragment: image_use_resource
resources a ON a.account_id = u.account_id AND a.runtime = u.runtime AND a.cluster = u.cluster
           AND a.api_group = u.api_group AND a.kind = u.kind AND a.namespace = u.namespace AND a.name = u.name
           AND NOT a.is_deleted
           AND (a.presence IS NULL OR a.presence = 'UNREADABLE')

-- fragment: image_use_filter
(:runtime = '' OR u.runtime = :runtime) AND (:cluster = '' OR u.cluster = :cluster)
   AND (:namespace = '' OR u.namespace = :namespace)
   AND (:application_name = '' OR a.application_name = :application_name)

-- fragment: image_use_images
SELECT u.image, min(u.since) AS since, count(*) AS uses
  FROM image_uses u
  JOIN :{image_use_resource}
 WHERE u.account_id = :account_id AND u.image <> '' AND u.image > :low_1 AND u.image < :high_1
   AND (:name = '' OR strpos(lower(u.image), lower(:name)) > 0)
   AND :{image_use_filter}
 GROUP BY u.image

-- list: image_use_list
-- order: image
SELECT :{image_use_node}, x.image
  FROM (:{image_use_images} ORDER BY :{order} LIMIT :limit::bigint) x
 ORDER BY :{order}
