-- type: Transition
-- from: :{transition_rows} t
-- key: t.number
-- scope: t.account_id = :account_id
-- access: transition, runtime = t.runtime, namespace = t.application_namespace, cluster = t.application_cluster, git_source = t.application_git_source, product = t.application_product, labels = t.application_labels
-- ruled: t.has_application
-- callers: users
-- query: transitions
-- field: number = t.number::text
-- field: runtime = t.runtime
-- field: cluster = t.cluster
-- field: group = t.api_group
-- field: kind = t.kind
-- field: namespace = t.namespace
-- field: name = t.name
-- field: uid = t.uid
-- field: applicationName = nullif(t.application_name, '')
-- field: applicationNamespace = nullif(t.application_namespace, '')
-- field: field = t.field
-- field: from = t.from_value
-- field: to = t.to_value
-- field: message = t.message
-- field: observedAt = time(t.observed_at)
-- field: recordedAt = time(t.recorded_at)
-- field: cause = t.cause
-- field: operationStartedAt = time(t.operation_started_at)
-- field: operationId = t.operation_id
-- field: actor = t.actor
-- field: merged = t.merged
-- filter: runtime text = t.runtime = :value
-- filter: cluster text = t.cluster = :value
-- filter: group text = t.api_group = :value
-- filter: kind text = t.kind = :value
-- filter: namespace text = t.namespace = :value
-- filter: name text = t.name = :value
-- filter: applicationName text = t.application_name = :value
-- filter: applicationNamespace text = t.application_namespace = :value
-- filter: fields text[] = t.field = ANY (:value)
-- filter: from text[] = t.from_value = ANY (:value)
-- filter: to text[] = t.to_value = ANY (:value)
-- filter: causes text[] = t.cause = ANY (:value)
-- filter: operationId text = t.operation_id = :value
-- filter: since timestamptz = t.recorded_at >= :value
-- filter: until timestamptz = t.recorded_at <= :value
-- order: NEWEST = t.number DESC

-- A change, and what rules see of the application that its object belonged to.
-- fragment: transition_rows
(SELECT x.*, p.has_application, p.application_cluster, p.application_git_source, p.application_product,
        p.application_labels
   FROM culvert.transitions x
   LEFT JOIN :{application_of})

-- The newest changes of one object: y has the conditions.
-- fragment: transition_nodes
SELECT coalesce(json_agg(json_build_object(
           'number', y.number::text, 'runtime', y.runtime, 'cluster', y.cluster, 'group', y.api_group, 'kind', y.kind,
           'namespace', y.namespace, 'name', y.name, 'uid', y.uid,
           'applicationName', nullif(y.application_name, ''),
           'applicationNamespace', nullif(y.application_namespace, ''), 'field', y.field, 'from', y.from_value,
           'to', y.to_value, 'message', y.message, 'observedAt', to_char(y.observed_at, :{rfc3339}),
           'recordedAt', to_char(y.recorded_at, :{rfc3339}), 'cause', y.cause,
           'operationStartedAt', to_char(y.operation_started_at, :{rfc3339}), 'operationId', y.operation_id,
           'actor', y.actor, 'merged', y.merged) ORDER BY y.number DESC), '[]'::json)

-- name: transition_partitions
SELECT transitions_partitions(:keep_days::integer, :per_hour_max::integer)

-- name: transition_trim
SELECT transitions_trim(:keep_days::integer, :account_max::bigint, :limit::integer)

-- name: transition_count_merged
SELECT transitions_count_merged()
