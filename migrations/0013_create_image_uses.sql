-- older-binaries: work
-- Which image runs where, since when: an image of a workload that no other object made. Goes with its resource. And
-- which application an application belongs to.

CREATE TABLE culvert.image_uses (
    account_id text COLLATE "C" NOT NULL,
    runtime text COLLATE "C" NOT NULL,
    cluster text COLLATE "C" NOT NULL,
    api_group text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    image text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,       -- of the workload: made anew, it begins anew
    since timestamptz NOT NULL,          -- observed first
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name, image)
);
CREATE INDEX image_uses_image ON culvert.image_uses (account_id, image) WHERE image <> '';

-- What is there already has been running since then at the latest.
ALTER TABLE culvert.resources NO FORCE ROW LEVEL SECURITY;
INSERT INTO culvert.image_uses
SELECT r.account_id, r.runtime, r.cluster, r.api_group, r.kind, r.namespace, r.name, i.image, r.uid, r.observed_at
  FROM culvert.resources r
 CROSS JOIN LATERAL (SELECT DISTINCT image FROM jsonb_array_elements_text(r.images) image) i
 WHERE NOT r.is_deleted AND r.owners = '[]'
   AND (r.api_group, r.kind) IN (('apps', 'Deployment'), ('apps', 'StatefulSet'), ('apps', 'DaemonSet'),
                                 ('argoproj.io', 'Rollout'), ('batch', 'CronJob'), ('batch', 'Job'), ('', 'Pod'));
ALTER TABLE culvert.resources FORCE ROW LEVEL SECURITY;

ALTER TABLE culvert.image_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE culvert.image_uses FORCE ROW LEVEL SECURITY;
CREATE POLICY account ON culvert.image_uses USING (account_id = current_setting('app.account_id', true))
    WITH CHECK (account_id = current_setting('app.account_id', true));
CREATE POLICY lookup ON culvert.image_uses FOR ALL TO culvert_lookup USING (true) WITH CHECK (false);
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.image_uses TO culvert_app;
GRANT SELECT, DELETE ON culvert.image_uses TO culvert_lookup;

-- The images of one workload, as its row has them now.
CREATE FUNCTION culvert.image_uses_set(owner culvert.resources) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    DELETE FROM culvert.image_uses u
     WHERE u.account_id = owner.account_id AND u.runtime = owner.runtime AND u.cluster = owner.cluster
       AND u.api_group = owner.api_group AND u.kind = owner.kind AND u.namespace = owner.namespace
       AND u.name = owner.name AND NOT owner.images ? u.image;
    INSERT INTO culvert.image_uses AS t (account_id, runtime, cluster, api_group, kind, namespace, name, image, uid, since)
    SELECT owner.account_id, owner.runtime, owner.cluster, owner.api_group, owner.kind, owner.namespace, owner.name, i.image,
           owner.uid, owner.observed_at
      FROM jsonb_array_elements_text(owner.images) i (image)
    ON CONFLICT (account_id, runtime, cluster, api_group, kind, namespace, name, image) DO UPDATE
       SET uid = excluded.uid, since = excluded.since
     WHERE t.uid <> excluded.uid;
END
$$;
REVOKE ALL ON FUNCTION culvert.image_uses_set(culvert.resources) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION culvert.image_uses_set(culvert.resources) TO culvert_app, culvert_lookup;

-- The parent by Argo CD's tracking; '' for none. Whether it is there is asked when it is shown.
ALTER TABLE culvert.applications
    ADD COLUMN parent_namespace text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN parent_name text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX applications_parent ON culvert.applications (account_id, runtime, parent_namespace, parent_name)
    WHERE parent_name <> '';
