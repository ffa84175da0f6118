// agent/health: a table of objects and of what Argo CD makes of them. Rows marked in the comments
// as of gitops-engine's testdata have that file's state; a row says which words its message must
// hold.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/health/health.h"
#include "base/json/json.h"

struct row {
    const char *group, *kind;
    const char *status;  // NULL: there is no rule
    const char *message; // a part of it; NULL: none is asked for
    const char *object;  // with ' for "
};

#define POD_RUNNING "'spec':{'restartPolicy':'Always'},'status':{'phase':'Running',"
#define COND(type, is, reason, message)                                                                                \
    "{'type':'" type "','status':'" is "','reason':'" reason "','message':'" message "'}"
#define CONDS(list) "{'status':{'conditions':[" list "]}}"

// clang-format off
static const struct row rows[] = {
    // ---- deployments
    {"apps", "Deployment", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':2},'status':{'observedGeneration':1,"
     "'replicas':2,'updatedReplicas':2,'availableReplicas':2,'readyReplicas':2}}"},
    {"apps", "Deployment", "Healthy", NULL, "{'metadata':{'generation':3},'spec':{'replicas':0},'status':{'observedGeneration':3}}"},
    {"apps", "Deployment", "Progressing", "1 of 2 updated replicas are available", "{'metadata':{'generation':1},'spec':{'replicas':2},"
     "'status':{'observedGeneration':1,'replicas':2,'updatedReplicas':2,'availableReplicas':1}}"},
    {"apps", "Deployment", "Progressing", "1 of 2 replicas are updated", "{'metadata':{'generation':1},'spec':{'replicas':2},"
     "'status':{'observedGeneration':1,'replicas':3,'updatedReplicas':1,'availableReplicas':2}}"},
    {"apps", "Deployment", "Progressing", "1 old replicas", "{'metadata':{'generation':1},'spec':{'replicas':2},"
     "'status':{'observedGeneration':1,'replicas':3,'updatedReplicas':2,'availableReplicas':2}}"},
    {"apps", "Deployment", "Progressing", "observe", "{'metadata':{'generation':2},'spec':{'replicas':1},"
     "'status':{'observedGeneration':1,'replicas':1,'updatedReplicas':1,'availableReplicas':1}}"},
    {"apps", "Deployment", "Degraded", "ProgressDeadlineExceeded", "{'metadata':{'generation':1},'spec':{'replicas':1},"
     "'status':{'observedGeneration':1,'conditions':[" COND("Progressing", "False", "ProgressDeadlineExceeded", "x") "]}}"},
    {"apps", "Deployment", "Progressing", "exceeded quota", "{'metadata':{'generation':1},'spec':{'replicas':1},"
     "'status':{'observedGeneration':1,'conditions':[" COND("ReplicaFailure", "True", "FailedCreate", "exceeded quota") "]}}"},
    {"apps", "Deployment", "Suspended", "paused", "{'metadata':{'generation':1},'spec':{'paused':true},'status':{}}"},
    // ---- stateful sets
    {"apps", "StatefulSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':1,'updateStrategy':{'type':'RollingUpdate'}},"
     "'status':{'observedGeneration':1,'readyReplicas':1,'currentReplicas':1,'currentRevision':'a','updateRevision':'a'}}"},
    {"apps", "StatefulSet", "Progressing", "observe", "{'metadata':{'generation':1},'spec':{'replicas':1},'status':{}}"},
    {"apps", "StatefulSet", "Progressing", "1 of 3 pods are ready", "{'metadata':{'generation':1},'spec':{'replicas':3},"
     "'status':{'observedGeneration':1,'readyReplicas':1}}"},
    {"apps", "StatefulSet", "Progressing", "revision b", "{'metadata':{'generation':1},'spec':{'replicas':1},"
     "'status':{'observedGeneration':1,'readyReplicas':1,'currentRevision':'a','updateRevision':'b'}}"},
    {"apps", "StatefulSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':1,'updateStrategy':{'type':'OnDelete'}},"
     "'status':{'observedGeneration':1,'readyReplicas':1,'currentRevision':'a','updateRevision':'b'}}"},
    {"apps", "StatefulSet", "Progressing", "partition", "{'metadata':{'generation':1},'spec':{'replicas':3,'updateStrategy':{'type':"
     "'RollingUpdate','rollingUpdate':{'partition':1}}},'status':{'observedGeneration':1,'readyReplicas':3,'updatedReplicas':1}}"},
    {"apps", "StatefulSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':3,'updateStrategy':{'type':"
     "'RollingUpdate','rollingUpdate':{'partition':1}}},'status':{'observedGeneration':1,'readyReplicas':3,'updatedReplicas':2}}"},
    // ---- daemon sets
    {"apps", "DaemonSet", "Healthy", NULL, "{'metadata':{'generation':1},'status':{'observedGeneration':1,'desiredNumberScheduled':2,"
     "'updatedNumberScheduled':2,'numberAvailable':2}}"},
    {"apps", "DaemonSet", "Progressing", "1 of 2 pods are updated", "{'metadata':{'generation':1},'status':{'observedGeneration':1,"
     "'desiredNumberScheduled':2,'updatedNumberScheduled':1,'numberAvailable':2}}"},
    {"apps", "DaemonSet", "Progressing", "1 of 2 updated pods are available", "{'metadata':{'generation':1},'status':{'observedGeneration':1,"
     "'desiredNumberScheduled':2,'updatedNumberScheduled':2,'numberAvailable':1}}"},
    {"apps", "DaemonSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'updateStrategy':{'type':'OnDelete'}},"
     "'status':{'observedGeneration':1,'desiredNumberScheduled':2,'updatedNumberScheduled':0,'numberAvailable':2}}"},
    {"apps", "DaemonSet", "Progressing", "observe", "{'metadata':{'generation':2},'status':{'observedGeneration':1}}"},
    // ---- replica sets
    {"apps", "ReplicaSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':1},'status':{'observedGeneration':1,'availableReplicas':1}}"},
    {"apps", "ReplicaSet", "Healthy", NULL, "{'metadata':{'generation':1},'spec':{'replicas':0},'status':{'observedGeneration':1}}"},
    {"apps", "ReplicaSet", "Progressing", "0 of 1", "{'metadata':{'generation':1},'spec':{'replicas':1},'status':{'observedGeneration':1}}"},
    {"apps", "ReplicaSet", "Degraded", "forbidden", "{'metadata':{'generation':1},'spec':{'replicas':1},'status':{'observedGeneration':1,"
     "'conditions':[" COND("ReplicaFailure", "True", "FailedCreate", "forbidden") "]}}"},
    // ---- jobs: the status of Failed and Complete is not looked at
    {"batch", "Job", "Progressing", "1 pods run", "{'status':{'active':1}}"},
    {"batch", "Job", "Degraded", "too often", CONDS(COND("Failed", "True", "BackoffLimitExceeded", "too often"))},
    {"batch", "Job", "Healthy", NULL, CONDS(COND("Complete", "True", "", ""))},
    {"batch", "Job", "Suspended", NULL, CONDS(COND("Suspended", "True", "JobSuspended", "Job suspended"))},
    {"batch", "Job", "Healthy", NULL, CONDS(COND("Suspended", "False", "JobResumed", "Job resumed"))},
    // ---- cron jobs
    {"batch", "CronJob", "Healthy", "Suspended", "{'spec':{'suspend':true},'status':{}}"},
    {"batch", "CronJob", "Progressing", NULL, "{'spec':{}}"},
    {"batch", "CronJob", "Healthy", "not been scheduled yet", "{'spec':{},'status':{}}"},
    {"batch", "CronJob", "Healthy", "never", "{'spec':{},'status':{'lastScheduleTime':'2026-01-01T00:00:00Z'}}"},
    {"batch", "CronJob", "Healthy", "running", "{'spec':{},'status':{'lastScheduleTime':'2026-01-02T00:00:00Z','lastSuccessfulTime':"
     "'2026-01-01T00:00:00Z','active':[{}]}}"},
    {"batch", "CronJob", "Degraded", "not completed its last execution", "{'spec':{},'status':{'lastScheduleTime':'2026-01-02T00:00:00Z','lastSuccessfulTime':"
     "'2026-01-01T00:00:00Z'}}"},
    {"batch", "CronJob", "Healthy", "has completed its last execution", "{'spec':{},'status':{'lastScheduleTime':'2026-01-02T00:00:00Z','lastSuccessfulTime':"
     "'2026-01-02T00:00:09Z'}}"},
    // ---- pods
    {"", "Pod", "Progressing", NULL, "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending'}}"},
    {"", "Pod", "Progressing", "Unschedulable: 0/3 nodes", "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending','conditions':["
     COND("PodScheduled", "False", "Unschedulable", "0/3 nodes are available") "]}}"},
    {"", "Pod", "Degraded", "container web: ImagePullBackOff: Back-off pulling", "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending',"
     "'containerStatuses':[{'name':'web','state':{'waiting':{'reason':'ImagePullBackOff','message':'Back-off pulling image'}}}]}}"},
    {"", "Pod", "Degraded", "ErrImagePull", "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending',"
     "'containerStatuses':[{'name':'web','state':{'waiting':{'reason':'ErrImagePull'}}}]}}"},
    {"", "Pod", "Degraded", "CreateContainerConfigError", "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending',"
     "'containerStatuses':[{'name':'web','state':{'waiting':{'reason':'CreateContainerConfigError'}}}]}}"},
    {"", "Pod", "Degraded", "CrashLoopBackOff, ended before with OOMKilled (exit code 137), restarted 4 times", "{" POD_RUNNING
     "'containerStatuses':[{'name':'web','ready':false,'restartCount':4,'state':{'waiting':{'reason':'CrashLoopBackOff'}},"
     "'lastState':{'terminated':{'reason':'OOMKilled','exitCode':137}}}]}}"},
    // A pod that may end is not failed by what its image does: it may be a hook.
    {"", "Pod", "Progressing", "ImagePullBackOff", "{'spec':{'restartPolicy':'Never'},'status':{'phase':'Pending',"
     "'containerStatuses':[{'name':'web','state':{'waiting':{'reason':'ImagePullBackOff'}}}]}}"},
    // Of init containers the verdict does not depend, the message does.
    {"", "Pod", "Progressing", "container init: CrashLoopBackOff", "{'spec':{'restartPolicy':'Always'},'status':{'phase':'Pending',"
     "'initContainerStatuses':[{'name':'init','state':{'waiting':{'reason':'CrashLoopBackOff'}}}],"
     "'containerStatuses':[{'name':'web','state':{'waiting':{'reason':'PodInitializing'}}}]}}"},
    {"", "Pod", "Healthy", NULL, "{" POD_RUNNING "'conditions':[" COND("Ready", "True", "", "") "],'containerStatuses':["
     "{'name':'web','ready':true,'state':{'running':{}},'lastState':{'terminated':{'exitCode':1}}}]}}"},
    {"", "Pod", "Progressing", "readiness probe does not succeed", "{" POD_RUNNING "'conditions':[" COND("Ready", "False", "", "")
     "],'containerStatuses':[{'name':'web','ready':false,'started':true,'state':{'running':{}}}]}}"},
    {"", "Pod", "Progressing", "startup probe has not succeeded", "{" POD_RUNNING "'conditions':[" COND("Ready", "False", "", "")
     "],'containerStatuses':[{'name':'web','ready':false,'started':false,'state':{'running':{}}}]}}"},
    {"", "Pod", "Degraded", "exit code 2", "{" POD_RUNNING "'conditions':[" COND("Ready", "False", "", "")
     "],'containerStatuses':[{'name':'web','ready':false,'state':{'running':{}},'lastState':{'terminated':{'reason':'Error','exitCode':2}}}]}}"},
    {"", "Pod", "Progressing", NULL, "{'spec':{'restartPolicy':'Never'},'status':{'phase':'Running'}}"},
    {"", "Pod", "Progressing", NULL, "{'spec':{'restartPolicy':'OnFailure'},'status':{'phase':'Running'}}"},
    {"", "Pod", "Degraded", "Evicted: The node was low", "{'spec':{},'status':{'phase':'Failed','reason':'Evicted','message':'The node was low on memory'}}"},
    {"", "Pod", "Degraded", "container web: Error (exit code 3)", "{'spec':{},'status':{'phase':'Failed','containerStatuses':["
     "{'name':'web','state':{'terminated':{'reason':'Error','exitCode':3}}}]}}"},
    {"", "Pod", "Healthy", NULL, "{'spec':{},'status':{'phase':'Succeeded'}}"},
    {"", "Pod", "Unknown", NULL, "{'spec':{},'status':{'phase':'Unknown'}}"},
    {"", "Pod", "Progressing", "Pending deletion", "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}," POD_RUNNING
     "'conditions':[" COND("Ready", "True", "", "") "]}}"},
    {"", "Pod", "Healthy", NULL, "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z','finalizers':['argocd.argoproj.io/hook-finalizer']},"
     "'spec':{},'status':{'phase':'Succeeded'}}"},
    // ---- services, ingresses, claims
    {"", "Service", "Healthy", NULL, "{'spec':{'type':'ClusterIP'}}"},
    {"", "Service", "Progressing", NULL, "{'spec':{'type':'LoadBalancer'},'status':{'loadBalancer':{}}}"},
    {"", "Service", "Healthy", NULL, "{'spec':{'type':'LoadBalancer'},'status':{'loadBalancer':{'ingress':[{'ip':'1.2.3.4'}]}}}"},
    {"", "Service", "Healthy", NULL, "{'spec':{'type':'LoadBalancer'},'status':{'loadBalancer':{'ingress':[{}]}}}"},
    {"networking.k8s.io", "Ingress", "Healthy", NULL, "{'status':{'loadBalancer':{'ingress':[{}]}}}"},
    {"networking.k8s.io", "Ingress", "Progressing", NULL, "{'status':{'loadBalancer':{}}}"},
    {"", "PersistentVolumeClaim", "Healthy", NULL, "{'status':{'phase':'Bound'}}"},
    {"", "PersistentVolumeClaim", "Progressing", NULL, "{'status':{'phase':'Pending'}}"},
    {"", "PersistentVolumeClaim", "Degraded", NULL, "{'status':{'phase':'Lost'}}"},
    {"", "PersistentVolumeClaim", "Unknown", NULL, "{'status':{}}"},
    // ---- autoscalers
    {"autoscaling", "HorizontalPodAutoscaler", "Healthy", NULL, CONDS(COND("AbleToScale", "True", "SucceededGetScale", "x")
     "," COND("ScalingActive", "True", "ValidMetricFound", "y"))},
    {"autoscaling", "HorizontalPodAutoscaler", "Degraded", "unable to get metrics", CONDS(COND("AbleToScale", "True", "SucceededGetScale", "x")
     "," COND("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics"))},
    {"autoscaling", "HorizontalPodAutoscaler", "Progressing", NULL, "{'status':{}}"},
    {"autoscaling", "HorizontalPodAutoscaler", "Degraded", "FailedGetScale", "{'metadata':{'annotations':{'autoscaling.alpha.kubernetes.io/conditions':"
     "'[{\\\"type\\\":\\\"AbleToScale\\\",\\\"status\\\":\\\"False\\\",\\\"reason\\\":\\\"FailedGetScale\\\"}]'}},'status':{}}"},
    {"autoscaling", "HorizontalPodAutoscaler", "Unknown", NULL, "{'metadata':{'annotations':{'autoscaling.alpha.kubernetes.io/conditions':'{{'}}}"},
    // ---- the API's own
    {"apiregistration.k8s.io", "APIService", "Healthy", "Passed", CONDS(COND("Available", "True", "Passed", "all checks passed"))},
    {"apiregistration.k8s.io", "APIService", "Progressing", "MissingEndpoints", CONDS(COND("Available", "False", "MissingEndpoints", "none"))},
    {"policy", "PodDisruptionBudget", "Healthy", "PodDisruptionBudget has InsufficientPods", CONDS(COND("DisruptionAllowed", "False", "InsufficientPods", ""))},
    {"policy", "PodDisruptionBudget", "Degraded", "SyncFailed", CONDS(COND("DisruptionAllowed", "False", "SyncFailed", ""))},
    {"policy", "PodDisruptionBudget", "Progressing", NULL, "{}"},
    {"apiextensions.k8s.io", "CustomResourceDefinition", "Healthy", "CRD is healthy", CONDS(COND("NamesAccepted", "True", "", "") "," COND("Established", "True", "", ""))},
    {"apiextensions.k8s.io", "CustomResourceDefinition", "Degraded", "clash", CONDS(COND("NamesAccepted", "False", "", "clash"))},
    {"apiextensions.k8s.io", "CustomResourceDefinition", "Progressing", NULL, CONDS(COND("Established", "False", "Installing", ""))},
    // ---- Argo's own
    {"argoproj.io", "Rollout", "Healthy", NULL, "{'metadata':{'generation':2},'status':{'observedGeneration':'2','phase':'Healthy'}}"},
    {"argoproj.io", "Rollout", "Suspended", "CanaryPauseStep", "{'metadata':{'generation':2},'status':{'observedGeneration':'2','phase':'Paused','message':'CanaryPauseStep'}}"},
    {"argoproj.io", "Rollout", "Degraded", "aborted", "{'metadata':{'generation':2},'status':{'observedGeneration':'2','phase':'Degraded','message':'aborted'}}"},
    {"argoproj.io", "Rollout", "Progressing", "observe", "{'metadata':{'generation':3},'status':{'observedGeneration':'2','phase':'Healthy'}}"},
    {"argoproj.io", "Rollout", "Progressing", "observe", "{'metadata':{'generation':3}}"},
    {"argoproj.io", "Rollout", "Healthy", NULL, "{'metadata':{'generation':3},'status':{'observedGeneration':'7d9c5fb','phase':'Healthy'}}"},
    {"argoproj.io", "Rollout", "Progressing", "observe", "{'metadata':{'generation':1,'annotations':{'rollout.argoproj.io/workload-generation':'4'}},"
     "'spec':{'workloadRef':{}},'status':{'observedGeneration':'1','workloadObservedGeneration':'3','phase':'Healthy'}}"},
    {"argoproj.io", "Rollout", "Progressing", "steps", "{'spec':{'replicas':1,'strategy':{'canary':{}}},'status':{'currentPodHash':'b','stableRS':'a',"
     "'replicas':1,'updatedReplicas':1,'availableReplicas':1}}"},
    {"argoproj.io", "AnalysisRun", "Healthy", NULL, "{'status':{'phase':'Successful'}}"},
    {"argoproj.io", "AnalysisRun", "Degraded", "metric failed", "{'status':{'phase':'Failed','message':'metric failed'}}"},
    {"argoproj.io", "AnalysisRun", "Unknown", NULL, "{'status':{'phase':'Inconclusive'}}"},
    {"argoproj.io", "AnalysisRun", "Progressing", NULL, "{}"},
    {"argoproj.io", "Experiment", "Degraded", NULL, "{'status':{'phase':'Error'}}"},
    {"argoproj.io", "Workflow", "Progressing", NULL, "{}"},
    {"argoproj.io", "Workflow", "Healthy", NULL, "{'status':{'phase':'Succeeded'}}"},
    {"argoproj.io", "Workflow", "Degraded", "step 2", "{'status':{'phase':'Failed','message':'step 2 failed'}}"},
    {"argoproj.io", "CronWorkflow", "Healthy", NULL, "{'status':{}}"},
    {"argoproj.io", "CronWorkflow", "Degraded", "bad", CONDS(COND("SpecError", "True", "", "bad"))},
    {"argoproj.io", "ApplicationSet", "Healthy", NULL, CONDS(COND("ErrorOccurred", "False", "", "ok") "," COND("ResourcesUpToDate", "True", "", "all"))},
    {"argoproj.io", "ApplicationSet", "Degraded", "no repo", CONDS(COND("ResourcesUpToDate", "True", "", "all") "," COND("ErrorOccurred", "True", "", "no repo"))},
    {"argoproj.io", "ApplicationSet", "Degraded", "update", CONDS(COND("ResourcesUpToDate", "False", "", "update failed"))},
    {"argoproj.io", "ApplicationSet", "Progressing", NULL, CONDS(COND("RolloutProgressing", "True", "", "") "," COND("ResourcesUpToDate", "True", "", ""))},
    {"argoproj.io", "EventBus", "Healthy", NULL, CONDS(COND("Deployed", "True", "", ""))},
    // Argo CD says itself what an Application is.
    {"argoproj.io", "Application", NULL, NULL, "{'status':{'health':{'status':'Degraded'}}}"},
    // ---- custom resources
    {"cert-manager.io", "Certificate", "Healthy", NULL, CONDS(COND("Ready", "True", "Ready", "up to date"))},
    {"cert-manager.io", "Certificate", "Progressing", "issuing", CONDS(COND("Ready", "False", "DoesNotExist", "x") "," COND("Issuing", "True", "", "issuing"))},
    {"cert-manager.io", "Certificate", "Degraded", "expired", CONDS(COND("Ready", "False", "Expired", "expired"))},
    {"cert-manager.io", "ClusterIssuer", "Degraded", "account", CONDS(COND("Ready", "False", "ErrRegister", "account"))},
    {"cert-manager.io", "Issuer", "Progressing", NULL, "{}"},
    {"external-secrets.io", "ExternalSecret", "Degraded", "could not get secret", CONDS(COND("Ready", "False", "SecretSyncedError", "could not get secret"))},
    {"external-secrets.io", "SecretStore", "Healthy", NULL, CONDS(COND("Ready", "True", "Valid", "store validated"))},
    {"external-secrets.io", "ClusterExternalSecret", "Degraded", NULL, CONDS(COND("Ready", "True", "", "") "," COND("PartiallyReady", "True", "", "some"))},
    {"bitnami.com", "SealedSecret", "Progressing", NULL, "{'metadata':{'generation':2},'status':{'observedGeneration':1,'conditions':[" COND("Synced", "True", "", "") "]}}"},
    {"bitnami.com", "SealedSecret", "Degraded", "no key", "{'metadata':{'generation':2},'status':{'observedGeneration':2,'conditions':[" COND("Synced", "False", "", "no key") "]}}"},
    {"ec2.aws.crossplane.io", "VPC", "Healthy", NULL, CONDS(COND("Synced", "True", "", "") "," COND("Ready", "True", "", ""))},
    {"ec2.aws.crossplane.io", "VPC", "Degraded", "denied", CONDS(COND("Ready", "True", "", "") "," COND("Synced", "False", "ReconcileError", "denied"))},
    {"ec2.aws.crossplane.io", "VPC", "Progressing", NULL, CONDS(COND("Synced", "True", "", "") "," COND("Ready", "False", "Creating", ""))},
    {"aws.crossplane.io", "ProviderConfig", "Healthy", NULL, "{'status':{}}"},
    {"s3.aws.upbound.io", "Bucket", "Healthy", NULL, CONDS(COND("Synced", "True", "", "") "," COND("Ready", "True", "", ""))},
    {"pkg.crossplane.io", "Provider", "Degraded", "UnpackingPackage", CONDS(COND("Installed", "False", "UnpackingPackage", ""))},
    {"s3.aws.crossplane.io", "Bucket", "Suspended", NULL, CONDS(COND("Ready", "True", "Available", "") "," COND("Synced", "False", "ReconcilePaused", ""))},
    {"sql.cnrm.cloud.google.com", "SQLInstance", "Degraded", "quota", CONDS(COND("Ready", "False", "UpdateFailed", "quota"))},
    {"keda.sh", "ScaledObject", "Healthy", NULL, CONDS(COND("Ready", "True", "", "") "," COND("Paused", "False", "", ""))},
    {"keda.sh", "ScaledObject", "Suspended", NULL, CONDS(COND("Ready", "True", "", "") "," COND("Paused", "True", "", ""))},
    {"keda.sh", "ScaledObject", "Degraded", "fell back", CONDS(COND("Ready", "True", "", "") "," COND("Fallback", "True", "", "fell back"))},
    {"keda.sh", "ScaledJob", "Degraded", NULL, CONDS(COND("Ready", "Unknown", "", ""))},
    {"serving.knative.dev", "Service", "Healthy", NULL, CONDS(COND("ConfigurationsReady", "True", "", "") "," COND("Ready", "True", "", "") "," COND("RoutesReady", "True", "", ""))},
    {"serving.knative.dev", "Service", "Degraded", "RevisionFailed", CONDS(COND("ConfigurationsReady", "False", "RevisionFailed", "") "," COND("Ready", "Unknown", "", ""))},
    {"serving.knative.dev", "Service", "Progressing", NULL, CONDS(COND("ConfigurationsReady", "Unknown", "", "") "," COND("Ready", "Unknown", "", ""))},
    {"kustomize.toolkit.fluxcd.io", "Kustomization", "Healthy", NULL, CONDS(COND("Ready", "True", "ReconciliationSucceeded", ""))},
    {"kustomize.toolkit.fluxcd.io", "Kustomization", "Progressing", NULL, CONDS(COND("Ready", "Unknown", "Progressing", "") "," COND("Reconciling", "True", "", ""))},
    {"kustomize.toolkit.fluxcd.io", "Kustomization", "Degraded", "BuildFailed", CONDS(COND("Ready", "False", "BuildFailed", ""))},
    {"kustomize.toolkit.fluxcd.io", "Kustomization", "Suspended", NULL, "{'spec':{'suspend':true},'status':{}}"},
    {"helm.toolkit.fluxcd.io", "HelmRelease", "Healthy", NULL, CONDS(COND("Ready", "True", "", "") "," COND("Released", "True", "", ""))},
    {"helm.toolkit.fluxcd.io", "HelmRelease", "Degraded", NULL, CONDS(COND("Ready", "False", "InstallFailed", "") "," COND("Released", "False", "", ""))},
    {"source.toolkit.fluxcd.io", "GitRepository", "Healthy", NULL, CONDS(COND("Ready", "True", "", "") "," COND("ArtifactInStorage", "True", "", ""))},
    {"source.toolkit.fluxcd.io", "HelmRepository", "Healthy", NULL, "{'spec':{'type':'oci'}}"},
    {"image.toolkit.fluxcd.io", "ImagePolicy", "Progressing", NULL, CONDS(COND("Ready", "False", "", "") "," COND("Reconciling", "True", "NewGeneration", ""))},
    {"notification.toolkit.fluxcd.io", "Receiver", "Degraded", NULL, CONDS(COND("Ready", "Unknown", "", "") "," COND("Reconciling", "True", "", ""))},
    {"gateway.networking.k8s.io", "Gateway", "Healthy", NULL, CONDS(COND("Accepted", "True", "", "") "," COND("Programmed", "True", "", ""))},
    {"gateway.networking.k8s.io", "Gateway", "Progressing", NULL, CONDS(COND("Accepted", "True", "", "") "," COND("Programmed", "False", "Pending", ""))},
    {"gateway.networking.k8s.io", "Gateway", "Degraded", "no certificate", "{'status':{'listeners':[{'conditions':[" COND("ResolvedRefs", "False", "", "no certificate") "]}]}}"},
    {"gateway.networking.k8s.io", "GatewayClass", "Progressing", NULL, CONDS(COND("Accepted", "Unknown", "Pending", ""))},
    {"gateway.networking.k8s.io", "HTTPRoute", "Healthy", NULL, "{'metadata':{'generation':1},'status':{'parents':[{'conditions':["
     "{'type':'Accepted','status':'True','observedGeneration':1}]}]}}"},
    {"gateway.networking.k8s.io", "HTTPRoute", "Progressing", NULL, "{'metadata':{'generation':2},'status':{'parents':[{'conditions':["
     "{'type':'Accepted','status':'True','observedGeneration':1}]}]}}"},
    {"gateway.networking.k8s.io", "HTTPRoute", "Degraded", "BackendNotFound", "{'status':{'parents':[{'conditions':[" COND("ResolvedRefs", "False", "BackendNotFound", "") "]}]}}"},
    {"cluster.x-k8s.io", "Cluster", "Healthy", NULL, "{'status':{'phase':'Provisioned','conditions':[{'type':'Ready','status':'False','severity':'Info'}]}}"},
    {"cluster.x-k8s.io", "Cluster", "Degraded", NULL, "{'status':{'phase':'Provisioned','conditions':[{'type':'Ready','status':'False','severity':'Error'}]}}"},
    {"cluster.x-k8s.io", "MachineDeployment", "Suspended", NULL, "{'spec':{'paused':true}}"},
    {"karpenter.sh", "NodePool", "Degraded", NULL, CONDS(COND("Ready", "False", "", ""))},
    {"karpenter.sh", "NodeClaim", "Suspended", NULL, CONDS(COND("Ready", "True", "", "") "," COND("Disrupting", "True", "", ""))},
    {"postgresql.cnpg.io", "Cluster", "Healthy", NULL, "{'status':{'phase':'Cluster in healthy state','conditions':[]}}"},
    {"postgresql.cnpg.io", "Cluster", "Degraded", NULL, "{'status':{'phase':'Failing over','conditions':[]}}"},
    {"acid.zalan.do", "postgresql", "Degraded", "SyncFailed", "{'status':{'PostgresClusterStatus':'SyncFailed'}}"},
    {"kafka.strimzi.io", "KafkaTopic", "Degraded", NULL, CONDS(COND("NotReady", "True", "", ""))},
    {"kafka.strimzi.io", "Kafka", "Progressing", NULL, CONDS(COND("NotReady", "True", "Creating", ""))},
    {"rabbitmq.com", "RabbitmqCluster", "Healthy", NULL, CONDS(COND("AllReplicasReady", "True", "", "") "," COND("ClusterAvailable", "True", "", ""))},
    {"rabbitmq.com", "Queue", "Unknown", NULL, "{}"},
    {"snapshot.storage.k8s.io", "VolumeSnapshot", "Healthy", NULL, "{'status':{'readyToUse':true}}"},
    {"monitoring.coreos.com", "Prometheus", "Progressing", NULL, CONDS(COND("Available", "False", "SomePodsNotReady", ""))},
    // ---- no rule
    {"", "ConfigMap", NULL, NULL, "{}"},
    {"", "Secret", NULL, NULL, "{'status':{'phase':'Bound'}}"},
    {"example.com", "Deployment", NULL, NULL, CONDS(COND("Ready", "False", "", ""))},
    {"crossplane.io.example.com", "Thing", NULL, NULL, "{}"},
};
// clang-format on

static json_t *parse(const char *text)
{
    char copy[4096];
    size_t len = strlen(text);
    assert_true(len < sizeof copy);
    for (size_t i = 0; i <= len; i++)
        copy[i] = text[i] == '\'' ? '"' : text[i];
    json_t *object = NULL;
    assert_int_equal(json_decode(str_of(copy, len), &(struct json_limits){0}, &object, NULL), ERROR_NONE);
    return object;
}

static void every_row(void **state)
{
    (void)state;
    struct health health;
    health_init(&health);
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        json_t *object = parse(row->object);
        health_assess(&health, str_c(row->group), str_c(row->kind), object);
        json_decref(object);
        const char *message = health.message.at ? health.message.at : "";
        bool same =
            health.status && row->status ? strcmp(health.status, row->status) == 0 : health.status == row->status;
        if (same && (!row->message || strstr(message, row->message))) continue;
        fprintf(stderr, "%s/%s: \"%s\" (%s), expected \"%s\" (%s) of %s\n", row->group, row->kind,
                health.status ? health.status : "none", message, row->status ? row->status : "none",
                row->message ? row->message : "", row->object);
        bad++;
    }
    health_finish(&health);
    assert_int_equal(bad, 0);
}

// Whatever types members have, rules answer something and do not read beyond.
static void any_types(void **state)
{
    (void)state;
    static const char *const values[] = {"null", "true", "-1", "'text'", "[]", "[null,1,'a',{}]", "{}"};
    static const char *const members[] = {"metadata", "spec", "status"};
    struct health health;
    health_init(&health);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                char text[64];
                snprintf(text, sizeof text, "{'v':%s}", values[v]);
                json_t *object = parse(rows[i].object), *value = parse(text);
                json_object_set(object, members[m], json_object_get(value, "v"));
                health_assess(&health, str_c(rows[i].group), str_c(rows[i].kind), object);
                json_object_set_new(object, members[m],
                                    json_pack("{s:O, s:[O, {s:O}]}", "phase", json_object_get(value, "v"), "conditions",
                                              json_object_get(value, "v"), "type", json_object_get(value, "v")));
                health_assess(&health, str_c(rows[i].group), str_c(rows[i].kind), object);
                json_decref(value);
                json_decref(object);
            }
        }
    }
    health_finish(&health);
}

// A message of any length is cut between characters.
static void long_messages(void **state)
{
    (void)state;
    struct health health;
    health_init(&health);
    for (size_t shift = 0; shift < 4; shift++) {
        char text[HEALTH_MESSAGE_BYTES_MAX * 3];
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xc3\xa4", 2);
        text[shift + (sizeof text - shift - 2) / 2 * 2] = 0;
        json_t *run = json_pack("{s:{s:s, s:s}}", "status", "phase", "Failed", "message", text);
        json_t *job = json_pack("{s:{s:[{s:s, s:s, s:s}]}}", "status", "conditions", "type", "Failed", "reason", "r",
                                "message", text);
        health_assess(&health, STR("argoproj.io"), STR("AnalysisRun"), run);
        assert_true(health.message.len > HEALTH_MESSAGE_BYTES_MAX - 8 && health.message.len < HEALTH_MESSAGE_BYTES_MAX);
        assert_true(str_is_utf8(strbuf_str(&health.message)));
        health_assess(&health, STR("batch"), STR("Job"), job);
        assert_true(health.message.len > HEALTH_MESSAGE_BYTES_MAX - 8 && health.message.len < HEALTH_MESSAGE_BYTES_MAX);
        assert_true(str_is_utf8(strbuf_str(&health.message)));
        json_decref(run);
        json_decref(job);
    }
    health_finish(&health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row), cmocka_unit_test(any_types),
                                       cmocka_unit_test(long_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
