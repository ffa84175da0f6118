#include "agent/reports/findings.h"

#include <stdio.h>

#include "base/json/json.h"

enum { TEXT_BYTES = 1024 };

void findings_add(json_t *findings, const char *code, enum finding_level level, const char *message,
                  const char *suggestion)
{
    if (json_array_size(findings) >= FINDINGS_MAX) return;
    json_t *finding = json_object();
    json_object_set_new(finding, "code", json_string(code));
    json_object_set_new(finding, "level", json_string(level == FINDING_ERROR ? "ERROR" : "WARNING"));
    json_object_set_new(finding, "message", json_new_str(str_first(str_c(message), TEXT_BYTES)));
    json_object_set_new(finding, "suggestion", json_new_str(str_first(str_c(suggestion), TEXT_BYTES)));
    json_array_append_new(findings, finding);
}

void findings_add_problem(json_t *findings, const struct kube_problem *problem)
{
    if (problem->kind == KUBE_PROBLEM_NONE) return;
    findings_add(findings, kube_problem_code(problem->kind), FINDING_ERROR, problem->cause, problem->cure);
}

void findings_add_right(json_t *findings, const char *group, const char *plural, const char *ns, bool was_readable)
{
    char message[TEXT_BYTES], suggestion[TEXT_BYTES];
    snprintf(message, sizeof message, "the agent may not list and watch %s%s%s%s%s: %s", plural, *group ? "." : "",
             group, ns ? " in namespace " : "", ns ? ns : "",
             was_readable ? "their last known state is shown" : "they are not shown");
    snprintf(
        suggestion, sizeof suggestion,
        "give the agent's service account the rule {apiGroups: [\"%s\"], resources: [%s], verbs: [get, list, watch]}"
        "; check with: kubectl auth can-i list %s%s%s --as=system:serviceaccount:argocd:culvert-agent",
        group, plural, plural, *group ? "." : "", group);
    findings_add(findings, "KUBERNETES_RIGHT_MISSING", was_readable ? FINDING_ERROR : FINDING_WARNING, message,
                 suggestion);
}
