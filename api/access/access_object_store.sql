-- What rules see of applications: of those that are named, or that the named objects belong to;
-- null where none is found. In the order of the subjects.
-- name: access_objects
SELECT coalesce(json_agg(CASE WHEN a.name IS NOT NULL THEN :{access_object} END ORDER BY w.place), '[]'::json)
  FROM jsonb_array_elements(:subjects::jsonb) WITH ORDINALITY AS w (o, place)
  LEFT JOIN LATERAL (
       SELECT w.o ->> 'namespace' AS namespace, w.o ->> 'name' AS name WHERE w.o ->> 'kind' = 'Application'
       UNION ALL
       (SELECT r.application_namespace, r.application_name
          FROM resources r
         WHERE r.account_id = :account_id AND r.runtime = w.o ->> 'runtime' AND r.api_group = w.o ->> 'group'
           AND r.kind = w.o ->> 'kind' AND r.namespace = w.o ->> 'namespace' AND r.name = w.o ->> 'name'
           AND r.application_name <> '' AND NOT r.is_deleted AND w.o ->> 'kind' <> 'Application'
         LIMIT 1)) AS s ON true
  LEFT JOIN applications a
    ON a.account_id = :account_id AND a.runtime = w.o ->> 'runtime' AND a.namespace = s.namespace AND a.name = s.name
   AND NOT a.is_deleted

-- fragment: access_object
json_build_object('CLUSTER', :{application_cluster}, 'GIT_SOURCE', :{application_git_source}, 'NAMESPACE', a.namespace,
                  'RUNTIME', a.runtime, 'PRODUCT_NAME', :{application_product}, 'labels', a.labels)
