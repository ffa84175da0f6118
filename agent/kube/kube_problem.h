// kube_problem: why the Kubernetes API cannot be read, as a cause and a cure for people: from the status of an answer,
// or from the error of a request that had none. A value; any thread.
#ifndef CULVERT_AGENT_KUBE_PROBLEM_H
#define CULVERT_AGENT_KUBE_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum kube_problem_kind {
    KUBE_PROBLEM_NONE,
    KUBE_PROBLEM_NAME,         // the server's name does not resolve
    KUBE_PROBLEM_UNREACHABLE,  // no connection
    KUBE_PROBLEM_HUNG,         // no answer in time
    KUBE_PROBLEM_UNTRUSTED,    // its certificate does not fit certificate-authority or the server's name
    KUBE_PROBLEM_CLOCK,        // its certificate is not valid now
    KUBE_PROBLEM_CREDENTIAL,   // the kubeconfig's exec plugin gave no credential
    KUBE_PROBLEM_UNAUTHORIZED, // 401
    KUBE_PROBLEM_FAILING,      // 5xx, or an answer that is no HTTP
    KUBE_PROBLEM_STORAGE,      // it answers, but cannot read its storage (etcd)
};

enum { KUBE_PROBLEM_TEXT_BYTES = 1024 };

struct kube_problem {
    enum kube_problem_kind kind;
    char cause[KUBE_PROBLEM_TEXT_BYTES];
    char cure[KUBE_PROBLEM_TEXT_BYTES];
};

// status 0: there was no answer, and err says why (kube_client.h has its codes). 403, 404 and 429 are answers of an API
// that lives: no problem. clock_skew_s: by how much this machine's clock is ahead of the server's, 0: unknown.
void kube_problem_of(int status, const struct error *err, const char *server, int64_t clock_skew_s,
                     struct kube_problem *out);
// What a read that needs the storage (etcd) found, of a server that has just answered /version:
// no answer in time and a 5xx are the storage's problem.
void kube_problem_of_read(int status, const struct error *err, const char *server, int64_t clock_skew_s,
                          struct kube_problem *out);
const char *kube_problem_code(enum kube_problem_kind kind); // "KUBERNETES_API_UNAUTHORIZED"
// Nothing that the server does can be seen: all but none and an unauthorized one, whose watches go on until they end.
bool kube_problem_blinds(enum kube_problem_kind kind);

#endif
