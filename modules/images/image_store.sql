-- fragment: image_node
jsonb_build_object('id', t.image_id) || t.fields || jsonb_build_object('accountId', t.account_id)

-- A runtime changes only what it was the first to report; a user ('') changes everything.
-- fragment: is_callers
(:runtime = '' OR t.runtime = :runtime)

-- What is said again replaces what was said of the same field; what is left out stays.
-- name: image_put
INSERT INTO images AS t (account_id, image_id, image_name, branch, commit, repo_digest, workflow_name, fields, runtime)
VALUES (:account_id, :image_id, :fields::jsonb ->> 'imageName', :fields::jsonb ->> 'branch',
        :fields::jsonb ->> 'commit', :fields::jsonb ->> 'repoDigest',
        :fields::jsonb ->> 'workflowName', :fields::jsonb, :runtime)
ON CONFLICT (account_id, image_id) DO UPDATE
   SET image_name = excluded.image_name, branch = coalesce(excluded.branch, t.branch),
       commit = coalesce(excluded.commit, t.commit), repo_digest = coalesce(excluded.repo_digest, t.repo_digest),
       workflow_name = coalesce(excluded.workflow_name, t.workflow_name), fields = t.fields || excluded.fields,
       updated_at = now()
 WHERE :{is_callers}
RETURNING :{image_node}

-- By id, by name, or by both: then both must hold. Of several with the name, the newest.
-- name: image_patch
UPDATE images t
   SET branch = coalesce(:fields::jsonb ->> 'branch', t.branch),
       commit = coalesce(:fields::jsonb ->> 'commit', t.commit),
       workflow_name = coalesce(:fields::jsonb ->> 'workflowName', t.workflow_name),
       fields = t.fields || :fields::jsonb,
       updated_at = now()
 WHERE t.account_id = :account_id
   AND t.image_id = (SELECT i.image_id
                       FROM images i
                      WHERE i.account_id = :account_id AND (:runtime = '' OR i.runtime = :runtime)
                          AND (:image_id = '' OR i.image_id = :image_id)
                        AND (:image_name = '' OR i.image_name = :image_name)
                      ORDER BY i.updated_at DESC, i.image_id
                      LIMIT 1)
RETURNING :{image_node}

-- name: image_layers_put
INSERT INTO image_layers AS t (account_id, image, layer_digests, layers, runtime)
VALUES (:account_id, :image, :layer_digests::jsonb, :layers::jsonb, :runtime)
ON CONFLICT (account_id, image) DO UPDATE
   SET layer_digests = coalesce(excluded.layer_digests, t.layer_digests), layers = excluded.layers
 WHERE :{is_callers}
RETURNING jsonb_build_object('accountId', t.account_id, 'created', to_char(t.created_at, :{rfc3339}), 'image', t.image,
                             'layerDigests', t.layer_digests, 'layers', t.layers)

-- name: image_registry_put
INSERT INTO image_registries AS t (account_id, image_id, domain, image_name, repo_digest, fields, runtime)
VALUES (:account_id, :image_id, coalesce(:fields::jsonb -> 'registry' ->> 'domain', ''),
        :fields::jsonb ->> 'imageName',
        :fields::jsonb ->> 'repoDigest', :fields::jsonb, :runtime)
ON CONFLICT (account_id, image_id, domain, image_name) DO UPDATE
   SET repo_digest = coalesce(excluded.repo_digest, t.repo_digest), fields = t.fields || excluded.fields,
       updated_at = now()
 WHERE :{is_callers}
RETURNING jsonb_build_object('repoDigest', t.repo_digest) || t.fields || jsonb_build_object('binaryId', t.image_id)
