#include "agent/kube/kube_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKEW_S_MIN = 60 };

static enum kube_problem_kind kind_of(int status, const struct error *err)
{
    if (status == 401) return KUBE_PROBLEM_UNAUTHORIZED;
    if (status >= 500) return KUBE_PROBLEM_FAILING;
    if (!err) return KUBE_PROBLEM_NONE;
    switch (err->code) {
    case ERROR_NOT_FOUND: return KUBE_PROBLEM_NAME;
    case ERROR_UNAVAILABLE: return KUBE_PROBLEM_UNREACHABLE;
    case ERROR_TIMEOUT: return KUBE_PROBLEM_HUNG;
    case ERROR_FORBIDDEN: return KUBE_PROBLEM_CREDENTIAL;
    case ERROR_UNAUTHENTICATED:
        return strstr(err->text, "not yet valid") || strstr(err->text, "expired") ? KUBE_PROBLEM_CLOCK
                                                                                  : KUBE_PROBLEM_UNTRUSTED;
    default: return KUBE_PROBLEM_FAILING;
    }
}

static const struct {
    const char *code, *cause, *cure;
} texts[] = {
    [KUBE_PROBLEM_NONE] = {"NONE", "", ""},
    [KUBE_PROBLEM_NAME] = {"KUBERNETES_API_NAME_UNKNOWN", "the name of the Kubernetes API server does not resolve",
                           "check server in the kubeconfig and the DNS of the agent's host"},
    [KUBE_PROBLEM_UNREACHABLE] = {"KUBERNETES_API_UNREACHABLE", "no connection to the Kubernetes API server",
                                  "check server in the kubeconfig, routes, firewalls and network policies, and that "
                                  "the API server runs"},
    [KUBE_PROBLEM_HUNG] = {"KUBERNETES_API_HUNG", "the Kubernetes API server does not answer in time",
                           "check the API server's load and its /livez; a firewall that drops packets looks the same"},
    [KUBE_PROBLEM_UNTRUSTED] = {"KUBERNETES_API_UNTRUSTED",
                                "the certificate of the Kubernetes API server cannot be verified",
                                "check certificate-authority(-data) in the kubeconfig, and that the certificate is for "
                                "the name in server"},
    [KUBE_PROBLEM_CLOCK] = {"KUBERNETES_API_CERTIFICATE_TIME",
                            "the certificate of the Kubernetes API server is not valid at this machine's time",
                            "check this machine's clock (timedatectl), then the certificate's dates"},
    [KUBE_PROBLEM_CREDENTIAL] = {"KUBERNETES_CREDENTIAL_MISSING",
                                 "the exec plugin of the kubeconfig provides no credential",
                                 "run the plugin manually as the agent's user, or create a kubeconfig for a service "
                                 "account (docs/operations.md, \"A kubeconfig for the agent\")"},
    [KUBE_PROBLEM_UNAUTHORIZED] = {"KUBERNETES_API_UNAUTHORIZED", "the Kubernetes API server refuses the credential",
                                   "the token or certificate in the kubeconfig has expired, was revoked or is for "
                                   "another cluster: create a new one (docs/operations.md, \"A kubeconfig for the "
                                   "agent\")"},
    [KUBE_PROBLEM_FAILING] = {"KUBERNETES_API_FAILING", "the Kubernetes API server answers with an error",
                              "check the API server's log and its /readyz?verbose, and that server in the kubeconfig "
                              "is a Kubernetes API"},
    [KUBE_PROBLEM_STORAGE] = {"KUBERNETES_STORAGE_FAILING",
                              "the Kubernetes API server answers, but cannot read its storage (etcd)",
                              "check that etcd runs, has a quorum and room on its disk, and the API server's "
                              "/readyz?verbose"},
};

static void describe(enum kube_problem_kind kind, int status, const struct error *err, const char *server,
                     int64_t clock_skew_s, struct kube_problem *out)
{
    *out = (struct kube_problem){.kind = kind};
    if (out->kind == KUBE_PROBLEM_NONE) return;
    char detail[ERROR_TEXT_BYTES + 32];
    if (status)
        snprintf(detail, sizeof detail, "status %d", status);
    else
        snprintf(detail, sizeof detail, "%s", err ? err->text : "no answer");
    snprintf(out->cause, sizeof out->cause, "%s: %s: %s", server, texts[out->kind].cause, detail);
    bool is_skewed = llabs(clock_skew_s) >= SKEW_S_MIN;
    if (is_skewed)
        snprintf(out->cure, sizeof out->cure, "this machine's clock is %lld s %s the API server's: set it; then %s",
                 llabs(clock_skew_s), clock_skew_s < 0 ? "behind" : "ahead of", texts[out->kind].cure);
    else
        snprintf(out->cure, sizeof out->cure, "%s", texts[out->kind].cure);
}

void kube_problem_of(int status, const struct error *err, const char *server, int64_t clock_skew_s,
                     struct kube_problem *out)
{
    describe(kind_of(status, err), status, err, server, clock_skew_s, out);
}

void kube_problem_of_read(int status, const struct error *err, const char *server, int64_t clock_skew_s,
                          struct kube_problem *out)
{
    enum kube_problem_kind kind = kind_of(status, err);
    if (kind == KUBE_PROBLEM_HUNG || (kind == KUBE_PROBLEM_FAILING && status)) kind = KUBE_PROBLEM_STORAGE;
    describe(kind, status, err, server, clock_skew_s, out);
}

const char *kube_problem_code(enum kube_problem_kind kind)
{
    return texts[kind].code;
}

bool kube_problem_blinds(enum kube_problem_kind kind)
{
    return kind != KUBE_PROBLEM_NONE && kind != KUBE_PROBLEM_UNAUTHORIZED;
}
