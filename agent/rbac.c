#include "agent/rbac.h"

#include <stddef.h>

enum { PRESET_APPLICATIONS = 1, PRESET_COMMON = 2, PRESET_ALL_BUT_SECRETS = 4, PRESET_ALL = 8 };

static const struct {
    const char *name;
    unsigned bit;
    const char *about;
} presets[] = {
    {"applications", PRESET_APPLICATIONS,
     "Argo's own kinds. Applications are shown with every resource that they list; the state of these\n"
     "# in the cluster is not shown, only which permission is missing."},
    {"common", PRESET_COMMON,
     "the kinds that most applications are made of, without Secrets. What is of another kind is shown\n"
     "# with the rule that would open it: add that under \"rules\"."},
    {"all-but-secrets", PRESET_ALL_BUT_SECRETS,
     "everything but Secrets. Kubernetes' rules can only add: the core group, which has the Secrets, is\n"
     "# spelled out, and other groups are named with all of their resources. Groups of your own\n"
     "# (kubectl api-versions) are to be added."},
    {"all", PRESET_ALL, "everything, Secrets too. Their values leave the cluster as digests only (docs/security.md)."},
};

// clang-format off
static const struct {
    unsigned presets;
    const char *group, *resources;
} rules[] = {
    {PRESET_APPLICATIONS | PRESET_COMMON, "argoproj.io",
     "applications, applicationsets, appprojects, rollouts, analysisruns, analysistemplates,\n"
     "                clusteranalysistemplates, experiments, workflows, workflowtemplates, cronworkflows"},
    {PRESET_COMMON | PRESET_ALL_BUT_SECRETS, "\"\"",
     "namespaces, pods, services, endpoints, configmaps, serviceaccounts,\n"
     "                persistentvolumeclaims, persistentvolumes, replicationcontrollers, resourcequotas,\n"
     "                limitranges, nodes, events, podtemplates"},
    {PRESET_COMMON, "apps", "deployments, statefulsets, daemonsets, replicasets, controllerrevisions"},
    {PRESET_COMMON, "batch", "jobs, cronjobs"},
    {PRESET_COMMON, "autoscaling", "horizontalpodautoscalers"},
    {PRESET_COMMON, "policy", "poddisruptionbudgets"},
    {PRESET_COMMON, "networking.k8s.io", "ingresses, ingressclasses, networkpolicies"},
    {PRESET_COMMON, "discovery.k8s.io", "endpointslices"},
    {PRESET_COMMON, "rbac.authorization.k8s.io", "roles, rolebindings, clusterroles, clusterrolebindings"},
    {PRESET_COMMON, "apiextensions.k8s.io", "customresourcedefinitions"},
    {PRESET_COMMON, "apiregistration.k8s.io", "apiservices"},
    {PRESET_COMMON, "storage.k8s.io", "storageclasses"},
    {PRESET_COMMON, "scheduling.k8s.io", "priorityclasses"},
    {PRESET_COMMON, "admissionregistration.k8s.io",
     "mutatingwebhookconfigurations, validatingwebhookconfigurations"},
    {PRESET_COMMON, "gateway.networking.k8s.io", "gateways, gatewayclasses, httproutes, grpcroutes"},
    {PRESET_COMMON, "cert-manager.io", "certificates, issuers, clusterissuers"},
    {PRESET_COMMON, "external-secrets.io",
     "externalsecrets, clusterexternalsecrets, secretstores, clustersecretstores, pushsecrets"},
    {PRESET_COMMON, "bitnami.com", "sealedsecrets"},
    {PRESET_COMMON, "keda.sh", "scaledobjects, scaledjobs"},
    {PRESET_COMMON, "monitoring.coreos.com",
     "prometheuses, alertmanagers, prometheusrules, servicemonitors, podmonitors"},
    {PRESET_ALL_BUT_SECRETS,
     "argoproj.io, apps, batch, autoscaling, policy, networking.k8s.io, discovery.k8s.io,\n"
     "                rbac.authorization.k8s.io, apiextensions.k8s.io, apiregistration.k8s.io, storage.k8s.io,\n"
     "                scheduling.k8s.io, admissionregistration.k8s.io, coordination.k8s.io, node.k8s.io,\n"
     "                events.k8s.io, snapshot.storage.k8s.io, gateway.networking.k8s.io, cert-manager.io,\n"
     "                external-secrets.io, bitnami.com, keda.sh, monitoring.coreos.com, kyverno.io,\n"
     "                networking.istio.io, security.istio.io, serving.knative.dev, eventing.knative.dev,\n"
     "                kustomize.toolkit.fluxcd.io, helm.toolkit.fluxcd.io, source.toolkit.fluxcd.io,\n"
     "                karpenter.sh, postgresql.cnpg.io, kafka.strimzi.io, rabbitmq.com", "\"*\""},
    {PRESET_ALL, "\"*\"", "\"*\""},
};
// clang-format on

static const char head[] = "apiVersion: v1\n"
                           "kind: Namespace\n"
                           "metadata:\n"
                           "  name: argocd\n"
                           "---\n"
                           "apiVersion: v1\n"
                           "kind: ServiceAccount\n"
                           "metadata:\n"
                           "  name: culvert-agent\n"
                           "  namespace: argocd\n"
                           "---\n"
                           "apiVersion: rbac.authorization.k8s.io/v1\n"
                           "kind: ClusterRole\n"
                           "metadata:\n"
                           "  name: culvert-agent\n"
                           "rules:\n";
static const char tail[] = "---\n"
                           "apiVersion: rbac.authorization.k8s.io/v1\n"
                           "kind: ClusterRoleBinding\n"
                           "metadata:\n"
                           "  name: culvert-agent\n"
                           "roleRef:\n"
                           "  apiGroup: rbac.authorization.k8s.io\n"
                           "  kind: ClusterRole\n"
                           "  name: culvert-agent\n"
                           "subjects:\n"
                           "  - kind: ServiceAccount\n"
                           "    name: culvert-agent\n"
                           "    namespace: argocd\n";

bool rbac_print(struct str preset, const struct operation_rights *rights, bool kubernetes_events, struct strbuf *out)
{
    unsigned bit = 0;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (!str_eq(preset, str_c(presets[i].name))) continue;
        bit = presets[i].bit;
        strbuf_addf(out,
                    "# Service account of culvert-agent and what it may read:\n# %s\n"
                    "# Made by: culvert-agent --print-rbac %s. Apply with kubectl apply -f.\n",
                    presets[i].about, presets[i].name);
    }
    if (!bit) return false;
    strbuf_add_c(out, head);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].presets & bit)
            strbuf_addf(out, "  - apiGroups: [%s]\n    resources: [%s]\n    verbs: [get, list, watch]\n",
                        rules[i].group, rules[i].resources);
    // The other presets have it.
    if (kubernetes_events && bit == PRESET_APPLICATIONS)
        strbuf_add_c(out, "  - apiGroups: [\"\"]\n    resources: [events]\n    verbs: [get, list, watch]\n");
    if (rights) operation_rights_print_rbac(rights, out);
    strbuf_add_c(out, tail);
    return true;
}
