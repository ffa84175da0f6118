// kube_exec: the exec plugin of a kubeconfig's user (EKS, GKE, AKS, OIDC): a program that prints a credential, run when
// there is none, shortly before it expires, and when the API server refuses it; in between the credential is kept. The
// program runs without a shell, in a session of its own, without standard input and standard error, without the agent's
// own variables (CULVERT_...), for a bounded time and with a bounded output; one run at a time, the next one after a
// failure ever later. Owned by the reporter; one loop. Source: client.authentication.k8s.io/v1 and v1beta1, "client-go
// credential plugins" in the documentation of Kubernetes.
//
//     no credential --want--> running --ExecCredential--> credential --expired, refused--> running ...
//                                \--anything else--> failed --after a while--> running
#ifndef CULVERT_AGENT_KUBE_EXEC_H
#define CULVERT_AGENT_KUBE_EXEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "base/str.h"

struct kube_exec;

enum { KUBE_EXEC_ARGS_MAX = 100, KUBE_EXEC_ENV_MAX = 100, KUBE_EXEC_BYTES_MAX = 256 * 1024 };

// What the kubeconfig says. A value; every text is owned.
struct kube_exec_spec {
    char *api_version; // client.authentication.k8s.io/v1 or v1beta1
    char *command;     // a path, or a name to be looked for in PATH
    char **args;       // without the command itself
    size_t arg_count;
    char **env; // NAME=value
    size_t env_count;
    bool wants_cluster; // provideClusterInfo
};

// The member exec of a user, folder being the kubeconfig's own. ERROR_INVALID names the member that cannot be used.
MUST_CHECK enum error_code kube_exec_spec_read(const json_t *exec, const char *folder, struct kube_exec_spec *out,
                                               struct error *err);
void kube_exec_spec_finish(struct kube_exec_spec *spec);

// A credential; every text is owned and NULL when not given. At least a token, or a certificate with its key.
struct kube_exec_credential {
    char *token;
    char *certificate_pem, *key_pem;
    int64_t expires_at_ms; // wall clock; 0: does not expire
};

// What a plugin printed. Errors never quote it.
MUST_CHECK enum error_code kube_exec_credential_read(struct str text, const char *api_version,
                                                     struct kube_exec_credential *out, struct error *err);
void kube_exec_credential_finish(struct kube_exec_credential *credential); // overwrites

struct kube_exec_options {
    struct loop *loop;
    const struct kube_exec_spec *spec;    // outlives it
    const char *server, *ca_pem;          // for plugins that want to know the cluster; ca_pem may be NULL; outlive it
    uint64_t timeout_ms;                  // of one run; 0: 30,000
    uint64_t retry_base_ms, retry_cap_ms; // between runs; 0: 1,000 and 60,000
};

struct kube_exec *kube_exec_create(const struct kube_exec_options *options);
void kube_exec_destroy(struct kube_exec *exec); // NULL is fine; ends a plugin that runs

enum kube_exec_state { KUBE_EXEC_READY, KUBE_EXEC_RUNNING, KUBE_EXEC_FAILED };

// Starts the plugin when that is due. READY: kube_exec_credential() is good now. RUNNING: ask again in a moment.
// FAILED: *err says why; it is tried again later, so ask again.
enum kube_exec_state kube_exec_want(struct kube_exec *exec, struct error *err);
const struct kube_exec_credential *kube_exec_credential(const struct kube_exec *exec); // valid until the next want
uint64_t kube_exec_generation(const struct kube_exec *exec);                           // of the credential
// The API server refused the credential of that generation. Nothing happens when there is a newer one.
void kube_exec_refused(struct kube_exec *exec, uint64_t generation);
uint64_t kube_exec_runs(const struct kube_exec *exec); // so far

#endif
