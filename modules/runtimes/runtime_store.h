// runtime_store: runtimes of an account. Their tokens: runtime_token_store.h.
#ifndef CULVERT_MODULES_RUNTIMES_RUNTIME_STORE_H
#define CULVERT_MODULES_RUNTIMES_RUNTIME_STORE_H

#include "base/id.h"
#include "storage/sql/store.h"

// What createRuntime gives (RuntimeInstallationArgs of the contract); empty views for what was not given.
struct runtime_new {
    struct str name; // RFC 1123 label, <= 38 bytes so that "<account id>-<name>" is one DNS label
    struct str ns, cluster, installation_type, git_provider, runtime_version, chart_version,
        component_names /* JSON array */, ingress_host, internal_ingress_host, ingress_class, ingress_controller,
        gateway_name, gateway_namespace, repo, access_mode;
    bool managed, is_external_argo_cd, recover;
    struct str token_id; // of the new runtime token
    uint8_t token_sha256[ID_SHA256_BYTES];
    uint64_t token_expires_in_ms; // 0: never
};

// ERROR_CONFLICT: the name is taken (unless recover). node = {"id","name"}.
void runtime_store_create(struct pg *pg, const char *account_id, const struct runtime_new *runtime,
                          store_node_done on_done, void *arg);
// Deletes the runtime with everything reported by it and revokes its tokens. count 0: no such runtime.
void runtime_store_delete(struct pg *pg, const char *account_id, struct str name, store_count_done on_done, void *arg);
// node: type Runtime of the contract (+ extra fields observedAt, receivedAt, freshness, online, agentVersion,
// tunnelEpoch).
void runtime_store_get(struct pg *pg, const char *account_id, struct str name, store_node_done on_done, void *arg);
void runtime_store_list(struct pg *pg, const char *account_id, const struct store_page *page, store_slice_done on_done,
                        void *arg);

#endif
