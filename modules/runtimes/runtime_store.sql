-- With recover an existing runtime keeps its reports and gets the new settings.
-- name: runtime_create
INSERT INTO runtimes (account_id, runtime, runtime_id, namespace, cluster, installation_type, git_provider,
                      runtime_version, chart_version, component_names, ingress_host, internal_ingress_host,
                      ingress_class, ingress_controller, gateway_name, gateway_namespace, repo, access_mode,
                      is_managed, is_external_argo_cd, has_installation_type)
VALUES (:account_id, :runtime, :runtime_id, :namespace, :cluster, coalesce(:installation_type, 'HELM'),
       :git_provider, :runtime_version, :chart_version, coalesce(:component_names::jsonb, '[]'), :ingress_host,
       :internal_ingress_host, :ingress_class, :ingress_controller, :gateway_name, :gateway_namespace,
        :repo, coalesce(:access_mode, 'TUNNEL'), :is_managed::boolean, :is_external_argo_cd::boolean,
        :installation_type IS NOT NULL)
ON CONFLICT (account_id, runtime) DO UPDATE
   SET namespace = excluded.namespace, cluster = excluded.cluster, installation_type = excluded.installation_type,
       git_provider = excluded.git_provider, runtime_version = excluded.runtime_version,
       chart_version = excluded.chart_version, component_names = excluded.component_names,
       ingress_host = excluded.ingress_host, internal_ingress_host = excluded.internal_ingress_host,
       ingress_class = excluded.ingress_class, ingress_controller = excluded.ingress_controller,
       gateway_name = excluded.gateway_name, gateway_namespace = excluded.gateway_namespace, repo = excluded.repo,
       access_mode = excluded.access_mode, is_managed = excluded.is_managed,
       is_external_argo_cd = excluded.is_external_argo_cd,
       has_installation_type = excluded.has_installation_type, updated_at = now()
 WHERE :recover::boolean
RETURNING json_build_object('id', runtime_id, 'name', runtime)

-- Tokens of before stop working: the runtime is installed anew.
-- name: runtime_tokens_replace
UPDATE runtime_tokens SET revoked_at = now()
 WHERE account_id = :account_id AND runtime = :runtime AND revoked_at IS NULL AND :recover::boolean

-- name: runtime_token_create
INSERT INTO runtime_tokens (account_id, token_id, runtime, runtime_id, secret_sha256, change, expires_at)
SELECT account_id, :token_id, runtime, runtime_id, :secret_sha256, 0,
       now() + :expires_in_ms::bigint * interval '1 millisecond'
  FROM runtimes
 WHERE account_id = :account_id AND runtime = :runtime AND (runtime_id = :runtime_id OR :recover::boolean)

-- name: runtime_tokens_revoke
UPDATE runtime_tokens SET revoked_at = now() WHERE account_id = :account_id AND runtime = :runtime
AND revoked_at IS NULL

-- name: runtime_delete
DELETE FROM runtimes WHERE account_id = :account_id AND runtime = :runtime

-- The runtimes of an account with what their sessions and reports say (migrations/0008): r.online (a live tunnel),
-- r.available (that, or reports over HTTP within 20 minutes), and how fresh their entities are.
-- fragment: runtime_states
SELECT r.*, f.session_epoch, f.agent_version, f.opened_at, f.closed_at, f.close_reason, f.online, f.http_live,
       f.available, f.observed_at, f.received_at, f.position_epoch, f.position_sequence, f.last_seen_at, f.since,
       f.disconnect_cause, f.lag, f.freshness, f.confirmed_epoch, f.tunnel_freshness, f.unconfirmed_freshness,
       f.http_freshness
  FROM runtimes r
  JOIN runtime_freshness f ON f.account_id = r.account_id AND f.runtime = r.runtime
 WHERE r.account_id = :account_id

-- Of an entity `a`, r being its runtime as above.
-- fragment: entity_freshness
entity_freshness(a.epoch, r.confirmed_epoch, r.tunnel_freshness, r.unconfirmed_freshness, r.http_freshness)

-- Its place in the order of its runtime's reports: session and number, to be compared number by number.
-- fragment: entity_sequence
a.epoch || '.' || a.sequence

-- The first of the errors that its agent finds in this session, or of its quota; NULL: none.
-- fragment: runtime_blocked_by
coalesce((SELECT f.value->>'message'
   FROM clusters c
  CROSS JOIN jsonb_array_elements(c.findings) f
  WHERE c.account_id = r.account_id AND c.runtime = r.runtime AND NOT c.is_deleted AND r.online
    AND c.epoch = r.session_epoch AND f.value->>'level' = 'ERROR'
  LIMIT 1), CASE quota.level WHEN 'ERROR' THEN quota.message END)

-- fragment: runtime_health
CASE WHEN r.available AND :{runtime_blocked_by} IS NULL THEN 'HEALTHY' ELSE 'DEGRADED' END

-- fragment: runtime_health_message
CASE WHEN r.available THEN :{runtime_blocked_by}
     WHEN r.session_epoch IS NULL THEN 'no agent has connected yet'
     WHEN r.closed_at IS NOT NULL THEN
         'disconnected since ' || to_char(r.closed_at, :{rfc3339}) || ': ' || coalesce(r.close_reason, 'unknown')
     ELSE 'the replica that held the tunnel is gone' END

-- fragment: runtime_metadata
json_build_object('group', 'codefresh.io', 'version', 'v1alpha1', 'kind', 'Runtime', 'name', r.runtime,
    'description', NULL, 'namespace', coalesce(r.namespace, r.runtime), 'runtime', r.runtime, 'cluster', r.cluster,
    'account', r.account_id, 'labels', '[]'::json, 'annotations', '[]'::json,
    'lastUpdated', to_char(greatest(r.updated_at, r.received_at, r.opened_at), :{rfc3339}),
    'created', to_char(r.created_at, :{rfc3339}), 'uid', r.runtime_id, 'favorite', false, 'revision', NULL)

-- fragment: runtime_node_base
jsonb_build_object(
    'metadata', :{runtime_metadata}, 'errors', :{runtime_errors_node},
    'noisyObjects', :{noisy_objects_node}, 'referencedBy', '[]'::json,
    'references', '[]'::json, 'self', json_build_object(
        'metadata', :{runtime_metadata}, 'errors', '[]'::json, 'referencedBy', '[]'::json, 'references', '[]'::json,
        'version', NULL, 'latest', NULL, 'source', json_build_object('appName', NULL),
        'syncStatus', CASE WHEN r.available THEN 'SYNCED' ELSE 'UNKNOWN' END, 'healthStatus', :{runtime_health},
        'healthMessage', :{runtime_health_message}, 'desiredManifest', NULL, 'actualManifest', NULL,
        'projects', '[]'::json),
    'syncStatus', CASE WHEN r.available THEN 'SYNCED' ELSE 'UNKNOWN' END, 'healthStatus', :{runtime_health},
    'healthMessage', :{runtime_health_message}, 'projects', '[]'::json, 'cluster', r.cluster,
    'installationType', CASE WHEN r.has_installation_type THEN r.installation_type END, 'managed', r.is_managed,
    'ignoreSecurityAndGitTokenUpdatesUsers', '[]'::json, 'isRemoteClusterConnected', r.online,
    'ingressHost', r.ingress_host, 'internalIngressHost', r.internal_ingress_host, 'ingressClass', r.ingress_class,
    'ingressController', r.ingress_controller, 'gatewayName', r.gateway_name,
    'gatewayNamespace', r.gateway_namespace, 'runtimeVersion', r.runtime_version, 'chartVersion', r.chart_version,
    'componentNames', r.component_names)

-- fragment: runtime_node_more
jsonb_build_object(
    'runtimeRelease', json_build_object(
        'version', coalesce(r.runtime_version, ''), 'runtimeVersion', r.runtime_version,
        'chartVersion', r.chart_version, 'hasSecurityVulnerabilities', false, 'channel', 'stable',
        'upgradeAvailable', false),
    'lastUpdated', to_char(greatest(r.updated_at, r.received_at, r.opened_at), :{rfc3339}),
    'installationStatus', CASE WHEN r.first_session_at IS NULL AND r.received_at IS NULL THEN 'IN_PROGRESS'
                               ELSE 'COMPLETED' END,
    'repo', r.repo,
    'managedClusters', (SELECT coalesce(json_agg(:{cluster_node} ORDER BY c.name <> 'in-cluster', c.name), '[]'::json)
                          FROM clusters c
                         WHERE c.account_id = r.account_id AND c.runtime = r.runtime AND NOT c.is_deleted),
    'managedClustersNum', (SELECT count(*) FROM clusters c
                            WHERE c.account_id = r.account_id AND c.runtime = r.runtime AND NOT c.is_deleted),
    'features', '[]'::json, 'gitProvider', r.git_provider, 'accessMode', r.access_mode,
    'iscInitialized', r.repo IS NOT NULL, 'available', r.available,
    'status', json_build_object(
        'appProxyStarted', :{app_proxy_info}, 'gitSourceConfigured', :{unknown_info},
        'defaultGitIntegration', :{unknown_info}, 'encryptionKey', :{unknown_info}, 'encryptionIv', :{unknown_info},
        'eventReporterArgoCDToken', :{unknown_info}, 'isc', :{unknown_info}, 'runtimeGitToken', :{unknown_info},
        'syncMode', 'UNKNOWN',
        'argoCdState', CASE WHEN r.available AND EXISTS (SELECT FROM applications a WHERE a.account_id = r.account_id
                                 AND a.runtime = r.runtime AND NOT a.is_deleted) THEN 'CONNECTED' ELSE 'UNKNOWN' END),
    'isConfigurationRuntime', false, 'isSkippedConfiguringAsArgoApp', false, 'internalSharedConfigAppName', NULL,
    'inClusterApplicationName', NULL, 'runtimeApplicationName', NULL, 'isExternalArgoCd', r.is_external_argo_cd,
    'isNamespacedRuntime', false,
    'observedAt', to_char(r.observed_at, :{rfc3339}), 'receivedAt', to_char(r.received_at, :{rfc3339}),
    'sequence', r.position_epoch || '.' || r.position_sequence, 'freshness', r.freshness,
    'lagSeconds', round(extract(epoch FROM r.lag), 3), 'lastSeenAt', to_char(r.last_seen_at, :{rfc3339}),
    'since', to_char(r.since, :{rfc3339}), 'disconnectCause', r.disconnect_cause,
    'storage', :{runtime_storage_node}, 'online', r.online, 'agentVersion', r.agent_version, 'tunnelEpoch', r.session_epoch)

-- fragment: app_proxy_info
json_build_object('description', NULL, 'status', CASE WHEN r.online THEN 'SUCCESSFUL' ELSE 'UNKNOWN' END)

-- fragment: unknown_info
json_build_object('description', NULL, 'status', 'UNKNOWN')

-- fragment: runtime_storage_joins
CROSS JOIN room
  LEFT JOIN used ON used.runtime = r.runtime
  LEFT JOIN LATERAL (:{runtime_storage_finding}) quota ON true

-- name: runtime_get
WITH :{storage_of_runtimes}
SELECT :{runtime_node_base} || :{runtime_node_more}
  FROM (:{runtime_states} AND r.runtime = :runtime) r
  :{runtime_storage_joins}

-- list: runtime_list
-- order: r.runtime
WITH :{storage_of_runtimes}
SELECT :{runtime_node_base} || :{runtime_node_more}, r.runtime
  FROM (:{runtime_states} AND :{page} ORDER BY :{order} LIMIT :limit::bigint) r
  :{runtime_storage_joins}
 ORDER BY :{order}

-- name: runtime_migrate
UPDATE runtimes
   SET installation_type = 'HELM', has_installation_type = true, updated_at = now()
 WHERE account_id = :account_id AND runtime = :runtime

-- name: runtime_count_others
SELECT count(*)
  FROM runtimes
 WHERE account_id = :account_id AND runtime <> :runtime
