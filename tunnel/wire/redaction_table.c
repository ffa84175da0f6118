// The table of open paths: what the platform stores, shows and uses of each kind. redaction_rules.h
// has its notation. Whatever is not listed leaves as a digest. A new path needs a reason: a reader
// of the platform sees its values.
#include "tunnel/wire/redaction_rules.h"

// clang-format off

const struct redaction_shape redaction_shapes[] = {
    // ---- what all kinds have -----------------------------------------------------------------------------------
    {"labels",
     "app.kubernetes.io/*,argocd.argoproj.io/*,helm.sh/*,kubernetes.io/metadata.name,kubernetes.io/service-name,"
     "rollouts.argoproj.io/*,workflows.argoproj.io/*,events.argoproj.io/*,codefresh.io/*,batch.kubernetes.io/*,"
     "apps.kubernetes.io/pod-index,statefulset.kubernetes.io/pod-name,pod-template-hash,rollouts-pod-template-hash,"
     "controller-revision-hash,pod-template-generation,job-name,controller-uid,rollout-type,step-index:label "
     "app.meta.commit-author,app.meta.commit-date,app.meta.commit-message:text "},
    {"annotations",
     "argocd.argoproj.io/tracking-id:pattern "
     "argocd.argoproj.io/*,app.kubernetes.io/*,helm.sh/*,meta.helm.sh/*,codefresh.io/*:text "
     "deployment.kubernetes.io/*,rollout.argoproj.io/*,deprecated.daemonset.template.generation:label "
     "app.meta.revisions-metadata:longtext "
     // Copies of the object, as several tools leave them, and what controllers rewrite all the
     // time.
     "kubectl.kubernetes.io/last-applied-configuration,banzaicloud.com/last-applied,kapp.k14s.io/original,"
     "argocd.argoproj.io/refresh,argocd.argoproj.io/hydrate:drop "},
    {"meta",
     "name,namespace,generateName,uid,resourceVersion:name creationTimestamp,deletionTimestamp:time "
     "generation,deletionGracePeriodSeconds:number labels@labels annotations@annotations "
     "ownerReferences{apiVersion,kind,name,uid:name controller,blockOwnerDeletion:bool} "
     "managedFields,selfLink:drop "},
    {"object", "apiVersion,kind:name metadata@meta "},
    {"metaWithFinalizers", "@meta finalizers:name "},
    {"templateMeta",
     "name,namespace,generateName:name creationTimestamp:time labels@labels annotations@annotations finalizers:name "
     "managedFields:drop "},
    {"conditions",
     "type,status,reason,severity:enum message:text "
     "lastTransitionTime,lastUpdateTime,lastProbeTime,lastHeartbeatTime:time observedGeneration:number "},
    {"selector", "matchLabels@labels matchExpressions{key:name operator:enum} "},
    {"reference", "apiVersion,apiGroup,group,version,kind,namespace,name,uid,fieldPath,resourceVersion:name "},
    {"counts", "*:quantity "},

    // ---- pods --------------------------------------------------------------------------------------------------
    {"keyReference", "name,key:name optional:bool "},
    {"probe",
     "initialDelaySeconds,timeoutSeconds,periodSeconds,successThreshold,failureThreshold,"
     "terminationGracePeriodSeconds:number httpGet{path:path port:port scheme:enum} tcpSocket{port:port} "
     "grpc{port:number} "},
    {"securityContext",
     "runAsUser,runAsGroup,fsGroup,supplementalGroups:number "
     "runAsNonRoot,privileged,allowPrivilegeEscalation,readOnlyRootFilesystem:bool "
     "capabilities{add,drop:enum} fsGroupChangePolicy,procMount:enum seccompProfile,appArmorProfile{type:enum} "},
    {"container",
     "name:name image:image imagePullPolicy,restartPolicy,terminationMessagePolicy:enum stdin,stdinOnce,tty:bool "
     "workingDir,terminationMessagePath:path "
     "ports{name:name containerPort,hostPort:number protocol:enum} "
     "resources{limits,requests@counts} "
     "env{name:name valueFrom{secretKeyRef,configMapKeyRef@keyReference fieldRef{apiVersion,fieldPath:name} "
     "resourceFieldRef{containerName,resource:name divisor:quantity}}} "
     "envFrom{secretRef,configMapRef@keyReference} "
     "volumeMounts{name:name mountPath,subPath:path readOnly:bool mountPropagation:enum} "
     "volumeDevices{name:name devicePath:path} "
     "livenessProbe,readinessProbe,startupProbe@probe securityContext@securityContext targetContainerName:name "},
    {"keyItems", "key:name path:path mode:number "},
    {"podSpec",
     "containers,initContainers,ephemeralContainers@container restartPolicy,dnsPolicy,preemptionPolicy:enum "
     "serviceAccountName,serviceAccount,nodeName,schedulerName,priorityClassName,runtimeClassName,hostname,"
     "subdomain:name "
     "hostNetwork,hostPID,hostIPC,hostUsers,automountServiceAccountToken,enableServiceLinks,shareProcessNamespace,"
     "setHostnameAsFQDN:bool "
     "terminationGracePeriodSeconds,activeDeadlineSeconds,priority:number "
     "imagePullSecrets{name:name} readinessGates{conditionType:name} schedulingGates{name:name} "
     "securityContext@securityContext nodeSelector@labels "
     "tolerations{key:name operator,effect:enum tolerationSeconds:number} "
     "topologySpreadConstraints{maxSkew,minDomains:number topologyKey:name whenUnsatisfiable:enum "
     "labelSelector@selector} "
     "volumes{name:name emptyDir{medium:enum sizeLimit:quantity} hostPath{path:path type:enum} "
     "secret{secretName:name optional:bool defaultMode:number items@keyItems} "
     "configMap{name:name optional:bool defaultMode:number items@keyItems} "
     "persistentVolumeClaim{claimName:name readOnly:bool} "
     "projected{defaultMode:number sources{secret,configMap{name:name optional:bool items@keyItems} "
     "serviceAccountToken{expirationSeconds:number path:path}}} "
     "downwardAPI{defaultMode:number} "
     "csi{driver:name readOnly:bool} ephemeral{volumeClaimTemplate{metadata@templateMeta spec@claimSpec}}} "},
    {"podTemplate", "metadata@templateMeta spec@podSpec "},
    {"containerState",
     "waiting{reason:enum message:text} running{startedAt:time} "
     "terminated{exitCode,signal:number reason:enum message:text startedAt,finishedAt:time containerID:name} "},
    {"containerStatus",
     "name,containerID:name image,imageID:image ready,started:bool restartCount:number "
     "state,lastState@containerState resources{limits,requests@counts} allocatedResources@counts "},
    {"podStatus",
     "phase,qosClass,reason,resize:enum message:text podIP,hostIP,nominatedNodeName:name podIPs,hostIPs{ip:name} "
     "startTime:time observedGeneration:number conditions@conditions "
     "containerStatuses,initContainerStatuses,ephemeralContainerStatuses@containerStatus "},

    // ---- workloads ---------------------------------------------------------------------------------------------
    {"workloadSpec",
     "replicas,minReadySeconds,progressDeadlineSeconds,revisionHistoryLimit:number paused:bool selector@selector "
     "template@podTemplate "},
    {"workloadStatus",
     "replicas,readyReplicas,availableReplicas,unavailableReplicas,updatedReplicas,fullyLabeledReplicas,"
     "terminatingReplicas,currentReplicas,collisionCount:number observedGeneration:quantity conditions@conditions "},
    {"rolling", "maxSurge,maxUnavailable:quantity partition:number "},
    {"jobSpec",
     "parallelism,completions,backoffLimit,backoffLimitPerIndex,maxFailedIndexes,activeDeadlineSeconds,"
     "ttlSecondsAfterFinished:number suspend,manualSelector:bool completionMode,podReplacementPolicy:enum "
     "selector@selector template@podTemplate "},
    {"claimSpec",
     "accessModes,volumeMode:enum storageClassName,volumeName,volumeAttributesClassName:name "
     "resources{requests,limits@counts} selector@selector "
     "dataSource,dataSourceRef@reference "},
    {"claimStatus",
     "phase,accessModes:enum capacity,allocatedResources@counts conditions@conditions "
     "currentVolumeAttributesClassName:name "},
    {"backend", "service{name:name port{name:port number:number}} serviceName:name servicePort:port resource@reference "},
    {"balancer", "ingress{ip,hostname:name ipMode:enum ports{port:number protocol:enum error:enum}} "},
    {"metricTarget", "type:enum averageUtilization:number value,averageValue:quantity "},
    {"scalerMetric",
     "type:enum resource,containerResource{name,container:name target,current@metricTarget} "
     "pods,external,object{metric{name:name} target,current@metricTarget describedObject@reference} "},

    // ---- Argo CD -----------------------------------------------------------------------------------------------
    {"source",
     "repoURL:url path:path chart,ref,name:name targetRevision:revision "
     "directory{recurse:bool include,exclude:pattern} "
     "helm{releaseName,version,namespace,kubeVersion:name valueFiles:url "
     "passCredentials,skipCrds,skipTests,skipSchemaValidation,ignoreMissingValueFiles:bool "
     "parameters{name:name forceString:bool} fileParameters{name:name path:path}} "
     "kustomize{namePrefix,nameSuffix,version,namespace,kubeVersion:name images:image commonLabels@labels "
     "commonAnnotations@annotations components:path forceCommonLabels,forceCommonAnnotations,labelWithoutSelector,"
     "labelIncludeTemplates,ignoreMissingComponents:bool replicas{name:name count:quantity}} "
     "plugin{name:name env{name:name} parameters{name:name}} "},
    {"destination", "server:url namespace,name:name "},
    {"health", "status:enum message:text lastTransitionTime:time "},
    {"resource",
     "group,version,kind,namespace,name:name status:enum health@health "
     "hook,requiresPruning,requiresDeletionConfirmation:bool syncWave:number "},
    {"initiator", "username:title automated:bool "},
    {"retry", "limit:number refresh:bool backoff{duration,maxDuration:duration factor:number} "},
    {"operation",
     "initiatedBy@initiator retry@retry info{name:name} "
     "sync{revision,revisions:revision prune,dryRun:bool syncOptions:enum autoHealAttemptsCount:number "
     "syncStrategy{apply,hook{force:bool}} resources@resource source,sources@source} "},
    {"syncResult",
     "revision,revisions:revision source,sources@source "
     "resources{group,version,kind,namespace,name:name status,syncPhase,hookPhase,hookType:enum message:text "
     "images:image} managedNamespaceMetadata{labels@labels annotations@annotations} "},
    {"applicationSpec",
     "project:name source,sources@source destination@destination revisionHistoryLimit:number "
     "sourceHydrator{drySource{repoURL:url path:path targetRevision:revision} syncSource,hydrateTo{path:path "
     "targetBranch:revision}} "
     "syncPolicy{automated{prune,selfHeal,allowEmpty,enabled:bool} syncOptions:enum retry@retry "
     "managedNamespaceMetadata{labels@labels annotations@annotations}} "
     "ignoreDifferences{group,kind,namespace,name,managedFieldsManagers:name jsonPointers:path} info{name:name} "},
    {"applicationStatus",
     "sync{status:enum revision,revisions:revision comparedTo{source,sources@source destination@destination}} "
     "health@health resources@resource summary{images:image externalURLs:url} "
     "history{id:number revision,revisions:revision deployedAt,deployStartedAt:time initiatedBy@initiator "
     "source,sources@source} "
     "operationState{phase:enum message:text startedAt,finishedAt:time retryCount:number operation@operation "
     "syncResult@syncResult} "
     "conditions@conditions reconciledAt,observedAt:time sourceType,sourceTypes,resourceHealthSource:enum "
     "controllerNamespace:name "},
    {"generator",
     "git{repoURL:url revision:revision files{path:path} directories{path:path exclude:bool} "
     "requeueAfterSeconds:number} clusters{selector@selector} selector@selector "
     "matrix,merge{generators@generator mergeKeys:name} "},

    // ---- Argo Rollouts -----------------------------------------------------------------------------------------
    {"rolloutAnalysis", "templates{templateName:name clusterScope:bool} args{name:name} startingStep:number "},
    {"podMeta", "labels@labels annotations@annotations "},
    {"rolloutSteps",
     "setWeight:number pause{duration:duration} "
     "setCanaryScale{weight,replicas:number matchTrafficWeight:bool} analysis@rolloutAnalysis "
     "experiment{duration:duration templates{name:name specRef:enum replicas,weight:number} "
     "analyses{name,templateName:name clusterScope,requiredForCompletion:bool}} "
     "setHeaderRoute{name:name} setMirrorRoute{name:name percentage:number} plugin{name:name} "},
    {"runSummary", "name:name status:enum message:text "},
    {"weight", "weight:number podTemplateHash,serviceName:name "},

    // ---- Argo Workflows ----------------------------------------------------------------------------------------
    {"names", "parameters,artifacts{name:name} "},
    {"workflowStep",
     "name,template,onExit:name templateRef{name,template:name clusterScope:bool} dependencies:name depends:pattern "
     "arguments@names continueOn{failed,error:bool} "},
    {"workflowTemplate",
     "name,serviceAccountName:name container,script,initContainers,sidecars@container containerSet{containers@container} "
     "steps@workflowStep dag{target:pattern failFast:bool tasks@workflowStep} inputs,outputs@names "
     "resource{action:enum} suspend{duration:duration} metadata@podMeta nodeSelector@labels "
     "retryStrategy{limit:quantity retryPolicy:enum backoff{duration,maxDuration:duration factor:quantity}} "
     "activeDeadlineSeconds:quantity timeout:duration parallelism,priority:number daemon,failFast:bool "},
    {"workflowSpec",
     "entrypoint,serviceAccountName,onExit,schedulerName,priorityClassName:name templates@workflowTemplate "
     "arguments@names workflowTemplateRef{name:name clusterScope:bool} suspend:bool "
     "priority,podPriority,parallelism:number activeDeadlineSeconds:quantity "
     "ttlStrategy@counts podGC{strategy:enum} nodeSelector@labels imagePullSecrets{name:name} "
     "workflowMetadata@podMeta "},
    {"workflowNode",
     "id,templateName,templateScope,boundaryID,hostNodeName:name name,displayName:nodename type,phase:enum "
     "templateRef{name,template:name clusterScope:bool} message:text startedAt,finishedAt:time progress:name "
     "children,outboundNodes:name estimatedDuration:number resourcesDuration@counts daemoned:bool "
     "nodeFlag{hooked,retried:bool} inputs,outputs{parameters,artifacts{name:name} exitCode:quantity} "},
    {"deep", "image:fullimage *@deep "},
    {0},
};

const struct redaction_kind redaction_kinds[] = {
    {"", "Secret", "@object type:name immutable:bool"},
    {"", "ConfigMap", "apiVersion,kind:name metadata@metaWithFinalizers immutable:bool"},
    {"", "Namespace", "@object spec{finalizers:name} status{phase:enum conditions@conditions}"},
    {"", "Pod", "apiVersion,kind:name metadata@metaWithFinalizers spec@podSpec status@podStatus"},
    {"", "Service",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{type,sessionAffinity,externalTrafficPolicy,"
     "internalTrafficPolicy,ipFamilyPolicy,ipFamilies:enum "
     "clusterIP,clusterIPs,externalIPs,loadBalancerIP,loadBalancerClass,externalName:name "
     "ports{name:name port,nodePort:number targetPort:port protocol:enum appProtocol:name} selector@labels "
     "publishNotReadyAddresses,allocateLoadBalancerNodePorts:bool healthCheckNodePort:number} "
     "status{loadBalancer@balancer conditions@conditions}"},
    {"", "PersistentVolumeClaim",
     "apiVersion,kind:name metadata@metaWithFinalizers spec@claimSpec status@claimStatus"},
    {"apps", "Deployment",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{@workloadSpec strategy{type:enum rollingUpdate@rolling}} "
     "status@workloadStatus"},
    {"apps", "ReplicaSet",
     "apiVersion,kind:name metadata@metaWithFinalizers spec@workloadSpec status@workloadStatus"},
    {"apps", "StatefulSet",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{@workloadSpec serviceName:name podManagementPolicy:enum "
     "updateStrategy{type:enum rollingUpdate@rolling} ordinals{start:number} "
     "persistentVolumeClaimRetentionPolicy{whenDeleted,whenScaled:enum} "
     "volumeClaimTemplates{metadata@templateMeta spec@claimSpec status@claimStatus}} "
     "status{@workloadStatus currentRevision,updateRevision:name}"},
    {"apps", "DaemonSet",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{@workloadSpec updateStrategy{type:enum "
     "rollingUpdate@rolling}} "
     "status{currentNumberScheduled,desiredNumberScheduled,numberAvailable,numberMisscheduled,numberReady,"
     "numberUnavailable,updatedNumberScheduled,collisionCount,observedGeneration:number conditions@conditions}"},
    {"batch", "Job",
     "apiVersion,kind:name metadata@metaWithFinalizers spec@jobSpec "
     "status{active,failed,succeeded,ready,terminating:number startTime,completionTime:time completedIndexes,"
     "failedIndexes:name conditions@conditions}"},
    {"batch", "CronJob",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{schedule:pattern timeZone:name concurrencyPolicy:enum "
     "suspend:bool startingDeadlineSeconds,successfulJobsHistoryLimit,failedJobsHistoryLimit:number "
     "jobTemplate{metadata@templateMeta spec@jobSpec}} "
     "status{active@reference lastScheduleTime,lastSuccessfulTime:time}"},
    {"autoscaling", "HorizontalPodAutoscaler",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{minReplicas,maxReplicas,"
     "targetCPUUtilizationPercentage:number scaleTargetRef@reference metrics@scalerMetric} "
     "status{currentReplicas,desiredReplicas,observedGeneration,currentCPUUtilizationPercentage:number "
     "lastScaleTime:time currentMetrics@scalerMetric conditions@conditions}"},
    {"networking.k8s.io", "Ingress",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{ingressClassName:name defaultBackend,backend@backend "
     "rules{host:name http{paths{path:path pathType:enum backend@backend}}} tls{hosts,secretName:name}} "
     "status{loadBalancer@balancer}"},
    {"discovery.k8s.io", "EndpointSlice",
     "@object addressType:enum ports{name:name port:number protocol:enum appProtocol:name} "
     "endpoints{addresses,hostname,nodeName,zone:name conditions{ready,serving,terminating:bool} targetRef@reference}"},
    {"apiregistration.k8s.io", "APIService",
     "@object spec{group,version:name groupPriorityMinimum,versionPriority:number insecureSkipTLSVerify:bool "
     "service{namespace,name:name port:number}} status{conditions@conditions}"},
    {"apiextensions.k8s.io", "CustomResourceDefinition",
     "@object spec{group:name scope:enum names{kind,listKind,plural,singular,shortNames,categories:name} "
     "versions{name:name served,storage,deprecated:bool}} "
     "status{conditions@conditions acceptedNames{kind,listKind,plural,singular,shortNames,categories:name} "
     "storedVersions:name}"},
    {"argoproj.io", "Application",
     "apiVersion,kind:name metadata@metaWithFinalizers spec@applicationSpec operation@operation "
     "status@applicationStatus"},
    {"argoproj.io", "ApplicationSet",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{generators@generator goTemplate:bool "
     "goTemplateOptions:enum "
     "template{metadata@templateMeta spec@applicationSpec} strategy{type:enum rollingSync{steps{maxUpdate:quantity "
     "matchExpressions{key:name operator:enum}}}} syncPolicy{preserveResourcesOnDeletion:bool applicationsSync:enum}} "
     "status{conditions@conditions resources@resource resourcesCount:number health@health "
     "applicationStatus{application,step:name status:enum message:text lastTransitionTime:time "
     "targetRevisions:revision}}"},
    {"argoproj.io", "Rollout",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{@workloadSpec restartAt:time "
     "workloadRef{apiVersion,kind,name:name scaleDown:enum} "
     "analysis{successfulRunHistoryLimit,unsuccessfulRunHistoryLimit:number} progressDeadlineAbort:bool "
     "strategy{canary{@rolling steps@rolloutSteps canaryService,stableService:name dynamicStableScale:bool "
     "abortScaleDownDelaySeconds,scaleDownDelaySeconds,scaleDownDelayRevisionLimit:number analysis@rolloutAnalysis "
     "canaryMetadata,stableMetadata@podMeta pingPong{pingService,pongService:name} "
     "trafficRouting{managedRoutes{name:name} istio{virtualService,virtualServices{name,routes:name} "
     "destinationRule{name,canarySubsetName,stableSubsetName:name}} nginx{stableIngress,stableIngresses:name} "
     "alb{ingress,rootService:name servicePort:number} smi{rootService,trafficSplitName:name}}} "
     "blueGreen{activeService,previewService:name autoPromotionEnabled:bool autoPromotionSeconds,"
     "scaleDownDelaySeconds,scaleDownDelayRevisionLimit,previewReplicaCount,abortScaleDownDelaySeconds:number "
     "maxUnavailable:quantity prePromotionAnalysis,postPromotionAnalysis@rolloutAnalysis "
     "activeMetadata,previewMetadata@podMeta}}} "
     "status{@workloadStatus phase:enum message:text abort,controllerPause,promoteFull:bool abortedAt,restartedAt:time "
     "currentPodHash,currentStepHash,stableRS:name currentStepIndex,HPAReplicas:number "
     "pauseConditions{reason:enum startTime:time} workloadObservedGeneration:quantity "
     "canary{weights{canary,stable,additional@weight verified:bool} currentExperiment:name stablePingPong:enum "
     "currentStepAnalysisRunStatus,currentBackgroundAnalysisRunStatus@runSummary} "
     "blueGreen{activeSelector,previewSelector:name scaleUpPreviewCheckPoint:bool "
     "prePromotionAnalysisRunStatus,postPromotionAnalysisRunStatus@runSummary}}"},
    {"argoproj.io", "AnalysisRun",
     "apiVersion,kind:name metadata@metaWithFinalizers spec{metrics{name:name interval,initialDelay:duration "
     "count,failureLimit,inconclusiveLimit,consecutiveErrorLimit,consecutiveSuccessLimit:quantity} args{name:name} "
     "terminate:bool dryRun{metricName:name}} "
     "status{phase:enum message:text startedAt,completedAt:time "
     "metricResults{name:name phase:enum message:text successful,failed,inconclusive,error,count,consecutiveError,"
     "consecutiveSuccess:number dryRun:bool measurements{phase:enum message:text startedAt,finishedAt,resumeAt:time "
     "value:measure}} "
     "runSummary,dryRunSummary{count,successful,failed,inconclusive,error:number}}"},
    {"argoproj.io", "Workflow",
     "apiVersion,kind:name metadata@metaWithFinalizers spec@workflowSpec "
     "status{phase:enum message:text progress:name startedAt,finishedAt:time estimatedDuration:number "
     "resourcesDuration@counts conditions@conditions nodes{*@workflowNode} storedTemplates{*@workflowTemplate} "
     "storedWorkflowTemplateSpec@workflowSpec}"},
    {"argoproj.io", "WorkflowTemplate", "@object spec@workflowSpec"},
    {"argoproj.io", "ClusterWorkflowTemplate", "@object spec@workflowSpec"},
    {"argoproj.io", "CronWorkflow",
     "@object spec{schedule,schedules:pattern timezone:name concurrencyPolicy:enum suspend:bool "
     "startingDeadlineSeconds,successfulJobsHistoryLimit,failedJobsHistoryLimit:number workflowMetadata@podMeta "
     "workflowSpec@workflowSpec} status{active@reference lastScheduledTime:time conditions@conditions phase:enum "
     "succeeded,failed:number}"},
    {0},
};

// Messages of conditions are not among them: of a kind that is not known, their content is unknown.
const char redaction_unknown_fields[] =
    "@object status{conditions{type,status,reason:enum lastTransitionTime:time observedGeneration:number} @deep} @deep";
