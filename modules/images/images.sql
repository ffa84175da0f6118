-- type: Image
-- from: :{image_uses} u
-- key: u.image
-- group: u.image
-- scope: u.account_id = :account_id
-- access: image, runtime = u.runtime, namespace = u.application_namespace, cluster = u.application_cluster, git_source = u.application_git_source, product = u.application_product, labels = u.application_labels
-- ruled: u.has_application
-- callers: users
-- query: images
-- field: name = u.image
-- field: repository = regexp_replace(split_part(u.image, '@', 1), ':[^:/]*$', '')
-- field: tag = substring(split_part(u.image, '@', 1) FROM ':([^:/]*)$')
-- field: digest = nullif(split_part(u.image, '@', 2), '')
-- field: runningSince = time(min(u.since))
-- field: usesCount = count(*)
-- field: uses = :{image_first_uses}
-- field: binary = :{image_binary}
-- filter: name text = strpos(lower(u.image), lower(:value)) > 0
-- filter: runtime text = u.runtime = :value
-- filter: cluster text = u.cluster = :value
-- filter: namespace text = u.namespace = :value
-- filter: applicationName text = u.application_name = :value

-- The workloads that ask for images, and what rules see of their applications.
-- fragment: image_uses
(SELECT t.*, x.application_name, x.application_namespace, p.has_application, p.application_cluster,
        p.application_git_source, p.application_product, p.application_labels
   FROM culvert.image_uses t
  CROSS JOIN :{resource_of}
   LEFT JOIN :{application_of}
  WHERE t.image <> '')

-- fragment: image_first_uses
to_json((array_agg(json_build_object(
    'runtime', u.runtime, 'cluster', u.cluster, 'kind', u.kind, 'namespace', u.namespace, 'name', u.name,
    'applicationName', nullif(u.application_name, ''), 'applicationNamespace', nullif(u.application_namespace, ''),
    'since', to_char(u.since, :{rfc3339})) ORDER BY u.since, u.runtime, u.cluster, u.namespace, u.name))[1: 500])

-- What CI reported of an image: by its name, by the digest in it, or by the registry that it was
-- pushed to.
-- fragment: image_binary
(SELECT jsonb_build_object('id', t.image_id) || t.fields || jsonb_build_object('accountId', t.account_id)
   FROM images t
   LEFT JOIN image_registries g ON g.account_id = t.account_id AND g.image_id = t.image_id
  WHERE t.account_id = :account_id
    AND (t.image_name = u.image OR u.image IN (g.image_name, g.domain || '/' || g.image_name)
         OR nullif(split_part(u.image, '@', 2), '') IN (t.repo_digest, g.repo_digest))
  ORDER BY t.updated_at DESC, t.image_id
  LIMIT 1)
