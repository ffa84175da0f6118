-- older-binaries: work
-- The few resources that are ApplicationSets, in the order in which they are listed.
CREATE INDEX resources_application_sets ON culvert.resources (account_id, runtime, cluster, namespace, name)
    WHERE api_group = 'argoproj.io' AND kind = 'ApplicationSet' AND NOT is_deleted;
