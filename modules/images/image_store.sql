-- fragment: image_node
jsonb_build_object('id', t.image_id) || t.fields || jsonb_build_object('accountId', t.account_id)

-- A runtime changes only what it was the first to report; a user ('') changes everything.
-- fragment: is_callers
($4 = '' OR t.runtime = $4)

-- What is said again replaces what was said of the same field; what is left out stays.
-- name: image_put
INSERT INTO images AS t (account_id, image_id, image_name, branch, commit, repo_digest, workflow_name, fields, runtime)
VALUES ($1, $2, $3::jsonb ->> 'imageName', $3::jsonb ->> 'branch', $3::jsonb ->> 'commit', $3::jsonb ->> 'repoDigest',
        $3::jsonb ->> 'workflowName', $3::jsonb, $4)
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
   SET branch = coalesce($4::jsonb ->> 'branch', t.branch), commit = coalesce($4::jsonb ->> 'commit', t.commit),
       workflow_name = coalesce($4::jsonb ->> 'workflowName', t.workflow_name), fields = t.fields || $4::jsonb,
       updated_at = now()
 WHERE t.account_id = $1
   AND t.image_id = (SELECT i.image_id
                       FROM images i
                      WHERE i.account_id = $1 AND ($5 = '' OR i.runtime = $5) AND ($2 = '' OR i.image_id = $2) AND ($3 = '' OR i.image_name = $3)
                      ORDER BY i.updated_at DESC, i.image_id
                      LIMIT 1)
RETURNING :{image_node}

-- name: image_layers_put
INSERT INTO image_layers AS t (account_id, image, layer_digests, layers, runtime)
VALUES ($1, $2, $3::jsonb, $5::jsonb, $4)
ON CONFLICT (account_id, image) DO UPDATE
   SET layer_digests = coalesce(excluded.layer_digests, t.layer_digests), layers = excluded.layers
 WHERE :{is_callers}
RETURNING jsonb_build_object('accountId', t.account_id, 'created', to_char(t.created_at, :{rfc3339}), 'image', t.image,
                             'layerDigests', t.layer_digests, 'layers', t.layers)

-- name: image_registry_put
INSERT INTO image_registries AS t (account_id, image_id, domain, image_name, repo_digest, fields, runtime)
VALUES ($1, $2, coalesce($3::jsonb -> 'registry' ->> 'domain', ''), $3::jsonb ->> 'imageName',
        $3::jsonb ->> 'repoDigest', $3::jsonb, $4)
ON CONFLICT (account_id, image_id, domain, image_name) DO UPDATE
   SET repo_digest = coalesce(excluded.repo_digest, t.repo_digest), fields = t.fields || excluded.fields,
       updated_at = now()
 WHERE :{is_callers}
RETURNING jsonb_build_object('repoDigest', t.repo_digest) || t.fields || jsonb_build_object('binaryId', t.image_id)
