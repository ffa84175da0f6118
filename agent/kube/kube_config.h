// kube_config: where the Kubernetes API is and how to prove who we are: from a kubeconfig file or
// from a pod's service account. A value owned by the agent; read at start, one thread. Only what an
// unattended agent can use is taken: exec plugins are (kube_exec.h), auth-provider plugins, user
// names with passwords, and switches that turn verification off are not.
#ifndef CULVERT_AGENT_KUBE_CONFIG_H
#define CULVERT_AGENT_KUBE_CONFIG_H

#include <stdint.h>

#include "agent/kube/kube_exec.h"
#include "base/error.h"
#include "base/str.h"

enum { KUBE_CONFIG_BYTES_MAX = 1024 * 1024, KUBE_CONFIG_TOKEN_BYTES_MAX = 64 * 1024 };

// Every pointer is owned and NULL when not given.
struct kube_transport;

struct kube_config {
    const struct kube_transport *transport; // NULL: HTTP; kube_client.h
    char *server; // "https://host:port[/prefix]" without a trailing slash; http only to the loopback
    char *ca_pem; // PEM texts, read at load
    char *client_certificate_pem, *client_key_pem;
    char *token;                      // fixed; wins over token_file
    char *token_file;                 // read again every minute: service account tokens are short-lived
    struct kube_exec_spec *exec_spec; // NULL: none; wins over the tokens and the certificate
    struct kube_exec *exec;           // runs it; set by who runs a loop, and gone before the configuration is
    char *ns;                         // of the context or of the pod
    char *token_read;                 // what token_file held
    uint64_t token_read_at_ms;
    bool may_change; // its texts are replaced while requests run
};

// path of a kubeconfig; "" or NULL: the pod's service account.
MUST_CHECK enum error_code kube_config_load(const char *path, struct kube_config *out, struct error *err);
// The text of a kubeconfig; relative paths in it start at folder.
MUST_CHECK enum error_code kube_config_parse(struct str text, const char *folder, struct kube_config *out,
                                             struct error *err);
// A service account's folder (token, ca.crt, namespace) and the API's address as the kubelet gives it.
MUST_CHECK enum error_code kube_config_in_cluster(const char *folder, const char *host, const char *port,
                                                  struct kube_config *out, struct error *err);
// A server that is asked the same way and is no Kubernetes API: its URL (https, or http to the
// loopback), a file with its CAs ("": those of the system), and a file with a bearer token, which
// need not be there yet.
MUST_CHECK enum error_code kube_config_of_server(struct str url, const char *ca_file, const char *token_file,
                                                 struct kube_config *out, struct error *err);
// A cluster as a cluster Secret of Argo CD has it: its server, and the JSON in config: a
// bearerToken, or certData and keyData of tlsClientConfig, and caData. Commands that make a
// credential, passwords and insecure are refused.
MUST_CHECK enum error_code kube_config_of_secret(struct str server, struct str config_json, struct kube_config *out,
                                                 struct error *err);
// Overwrites what is secret.
void kube_config_finish(struct kube_config *config);

// The bearer token of this moment, or the empty view. now_ms: monotonic. A file that cannot be read keeps the last one.
struct str kube_config_token(struct kube_config *config, uint64_t now_ms);
// The API refused the credential (exec: that of this generation): it is read or made again before
// the next use.
void kube_config_token_refused(struct kube_config *config, uint64_t generation);

#endif
