-- type: KubernetesEvent
-- from: :{kubernetes_event_rows} t
-- key: t.event_uid, t.cluster, t.runtime
-- scope: t.account_id = :account_id
-- access: kubernetes_event, runtime = t.runtime, namespace = t.application_namespace, cluster = t.application_cluster, git_source = t.application_git_source, product = t.application_product, labels = t.application_labels
-- ruled: t.has_application
-- callers: users
-- query: kubernetesEvents
-- field: uid = t.event_uid
-- field: runtime = t.runtime
-- field: cluster = t.cluster
-- field: group = t.api_group
-- field: kind = t.kind
-- field: namespace = t.namespace
-- field: name = t.name
-- field: applicationName = nullif(t.application_name, '')
-- field: applicationNamespace = nullif(t.application_namespace, '')
-- field: type = upper(t.type)
-- field: reason = t.reason
-- field: message = t.message
-- field: component = t.component
-- field: count = t.count
-- field: firstAt = time(t.first_at)
-- field: lastAt = time(t.last_at)
-- field: recordedAt = time(t.recorded_at)
-- filter: runtime text = t.runtime = :value
-- filter: cluster text = t.cluster = :value
-- filter: group text = t.api_group = :value
-- filter: kind text = t.kind = :value
-- filter: namespace text = t.namespace = :value
-- filter: name text = t.name = :value
-- filter: applicationName text = t.application_name = :value
-- filter: applicationNamespace text = t.application_namespace = :value
-- filter: types text[] = upper(t.type) = ANY (:value)
-- filter: reasons text[] = t.reason = ANY (:value)
-- filter: since timestamptz = t.last_at >= :value
-- filter: until timestamptz = t.last_at <= :value
-- order: NEWEST = t.last_at DESC, t.event_uid DESC, t.cluster, t.runtime

-- An Event, and what rules see of the application that its object belongs to.
-- fragment: kubernetes_event_rows
(SELECT x.*, p.has_application, p.application_cluster, p.application_git_source, p.application_product,
        p.application_labels
   FROM culvert.kubernetes_events x
   LEFT JOIN :{application_of})

-- The newest 20 of an application a and what it holds, warnings first.
-- fragment: application_kubernetes_events
(SELECT coalesce(json_agg(json_build_object(
            'uid', y.event_uid, 'runtime', y.runtime, 'cluster', y.cluster, 'group', y.api_group, 'kind', y.kind,
            'namespace', y.namespace, 'name', y.name, 'applicationName', nullif(y.application_name, ''),
            'applicationNamespace', nullif(y.application_namespace, ''), 'type', upper(y.type), 'reason', y.reason,
            'message', y.message, 'component', y.component, 'count', y.count,
            'firstAt', to_char(y.first_at, :{rfc3339}), 'lastAt', to_char(y.last_at, :{rfc3339}),
            'recordedAt', to_char(y.recorded_at, :{rfc3339}))
            ORDER BY y.type DESC, y.last_at DESC, y.event_uid), '[]'::json)
   FROM (SELECT z.*
           FROM (SELECT *
                   FROM culvert.kubernetes_events e
                  WHERE e.account_id = a.account_id AND e.runtime = a.runtime
                    AND e.application_namespace = a.namespace AND e.application_name = a.name
                  ORDER BY e.last_at DESC
                  LIMIT 200) z
          ORDER BY z.type DESC, z.last_at DESC, z.event_uid
          LIMIT 20) y)

-- The object that an Event is about.
-- fragment: kubernetes_event_object
(SELECT r.application_namespace, r.application_name
   FROM resources r
  WHERE r.account_id = :account_id AND r.runtime = :runtime AND r.cluster = :cluster AND r.api_group = :api_group
    AND r.kind = :kind AND r.namespace = :namespace AND r.name = :name AND NOT r.is_deleted
  UNION ALL
 SELECT a.namespace, a.name
   FROM applications a
  WHERE a.account_id = :account_id AND a.runtime = :runtime AND a.namespace = :namespace AND a.name = :name
    AND :api_group = 'argoproj.io' AND :kind = 'Application' AND NOT a.is_deleted
  LIMIT 1)

-- A time ahead of the clock here counts as now. What is older than the row changes nothing.
-- name: kubernetes_event_put
INSERT INTO kubernetes_events AS t (account_id, runtime, cluster, event_uid, api_group, kind, namespace, name,
                                    application_namespace, application_name, type, reason, message, component, count,
                                    first_at, last_at)
SELECT :account_id, :runtime, :cluster, :event_uid, :api_group, :kind, :namespace, :name, o.application_namespace,
       o.application_name, :type, :reason, :message, :component, :count::bigint,
       least(coalesce(:first_at::timestamptz, :last_at::timestamptz, :observed_at::timestamptz), now()),
       least(coalesce(:last_at::timestamptz, :observed_at::timestamptz), now())
  FROM :{kubernetes_event_object} o,
       :{runtime_row} AND (:epoch::bigint = 0 OR :epoch::bigint >= p.fence_epoch)
ON CONFLICT (account_id, runtime, cluster, event_uid) DO UPDATE
   SET application_namespace = excluded.application_namespace, application_name = excluded.application_name,
       type = excluded.type, reason = excluded.reason, message = excluded.message, component = excluded.component,
       count = excluded.count, last_at = excluded.last_at, recorded_at = now()
 WHERE excluded.last_at >= t.last_at AND excluded.count >= t.count
   AND (t.api_group, t.kind, t.namespace, t.name)
       = (excluded.api_group, excluded.kind, excluded.namespace, excluded.name)
   AND (t.application_namespace, t.application_name, t.type, t.reason, t.message, t.component, t.count, t.last_at)
       IS DISTINCT FROM (excluded.application_namespace, excluded.application_name, excluded.type, excluded.reason,
                         excluded.message, excluded.component, excluded.count, excluded.last_at)
RETURNING true

-- What an object has beyond its newest 50, which is rarely more than one row.
-- name: kubernetes_event_trim_object
DELETE FROM kubernetes_events e
 WHERE e.account_id = :account_id AND e.runtime = :runtime
   AND (e.cluster, e.event_uid) IN (
       SELECT o.cluster, o.event_uid
         FROM kubernetes_events o
        WHERE o.account_id = :account_id AND o.runtime = :runtime AND o.cluster = :cluster
          AND o.namespace = :namespace AND o.name = :name AND o.kind = :kind AND o.api_group = :api_group
        ORDER BY o.last_at DESC, o.event_uid DESC
       OFFSET 50)

-- name: kubernetes_event_trim
SELECT kubernetes_events_trim(:keep_days::integer, :account_max::bigint, :limit::integer)
