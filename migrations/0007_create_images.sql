-- older-binaries: work
-- What pipelines know about images before any cluster runs them: how they were built, where they were pushed, and what
-- issues and pull requests stand behind them. Written by the reporters of CI; every write may be repeated.

CREATE TABLE culvert.images (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    image_id text COLLATE "C" NOT NULL,
    image_name text COLLATE "C" NOT NULL,
    branch text COLLATE "C",
    commit text COLLATE "C",
    repo_digest text COLLATE "C",
    workflow_name text COLLATE "C",
    fields jsonb NOT NULL, -- all that was said, by the names of ImageBinaryInput
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, image_id)
);
CREATE INDEX images_name ON culvert.images (account_id, image_name);
CREATE INDEX images_digest ON culvert.images (account_id, repo_digest) WHERE repo_digest IS NOT NULL;
CREATE INDEX images_commit ON culvert.images (account_id, commit) WHERE commit IS NOT NULL;

CREATE TABLE culvert.image_layers (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    image text COLLATE "C" NOT NULL,
    layer_digests jsonb,
    layers jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, image)
);

-- One image lies in many registries; the image may be told later than its places.
CREATE TABLE culvert.image_registries (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    image_id text COLLATE "C" NOT NULL,
    domain text COLLATE "C" NOT NULL,
    image_name text COLLATE "C" NOT NULL,
    repo_digest text COLLATE "C",
    fields jsonb NOT NULL, -- by the names of ImageRegistryInput
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, image_id, domain, image_name)
);
CREATE INDEX image_registries_digest ON culvert.image_registries (account_id, repo_digest)
    WHERE repo_digest IS NOT NULL;

CREATE TABLE culvert.annotations (
    account_id text COLLATE "C" NOT NULL REFERENCES culvert.accounts ON DELETE CASCADE,
    entity_type text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL, -- an id of ours, or canonical JSON that names a Kubernetes object
    type text COLLATE "C" NOT NULL,      -- issue, pr, ...
    key text COLLATE "C" NOT NULL,
    classic_id text COLLATE "C",
    value jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, entity_type, entity_id, type, key)
);
CREATE INDEX annotations_key ON culvert.annotations (account_id, type, key);

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['images', 'image_layers', 'image_registries', 'annotations'] LOOP
        EXECUTE format('ALTER TABLE culvert.%I ENABLE ROW LEVEL SECURITY', relation);
        EXECUTE format('ALTER TABLE culvert.%I FORCE ROW LEVEL SECURITY', relation);
        EXECUTE format('CREATE POLICY account ON culvert.%I USING (account_id = current_setting(''app.account_id'', true))
                        WITH CHECK (account_id = current_setting(''app.account_id'', true))', relation);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.%I TO culvert_app', relation);
    END LOOP;
END
$$;
