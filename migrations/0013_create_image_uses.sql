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
    PRIMARY KEY (account_id, runtime, cluster, api_group, kind, namespace, name, image),
    FOREIGN KEY (account_id, runtime, cluster, api_group, kind, namespace, name) REFERENCES culvert.resources
        ON DELETE CASCADE
);
CREATE INDEX image_uses_image ON culvert.image_uses (account_id, image);

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
GRANT SELECT, INSERT, UPDATE, DELETE ON culvert.image_uses TO culvert_app;

-- The parent by Argo CD's tracking; '' for none. Whether it is there is asked when it is shown.
ALTER TABLE culvert.applications
    ADD COLUMN parent_namespace text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN parent_name text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX applications_parent ON culvert.applications (account_id, runtime, parent_namespace, parent_name)
    WHERE parent_name <> '';
