"""What open clients send to the platform: command line, CI steps, reporters, Terraform, and a runtime's own components. Named by client and operation."""

PAGE = "pageInfo { startCursor endCursor hasNextPage hasPrevPage }"
RELEASE = """releaseId releaseName productName promotionFlowName error { message code } status environmentsStatuses { __typename environmentName status }
 createdAt triggerCommit { sha } initiator { name avatarUrl } version"""
PROMOTION = """id productName promotionFlowName status environments { __typename name status } createdAt
 triggerCommitInfo { commitSha commitAuthor avatarURL } promotionAppVersion failure { message }"""
ABAC = "id accountId entityType teams tags actions attributes { name key value }"

DOCUMENTS = {
    # ---- command line and SDK
    "cli Me": "query Me { me { id name email isAdmin accounts { id name } activeAccount { id name gitProvider gitApiUrl sharedConfigRepo admins features { gitopsPlanEnforcement } } } }",
    "cli Runtimes": "query Runtimes { runtimes { edges { node { metadata { name namespace } self { syncStatus healthMessage healthStatus } syncStatus healthMessage healthStatus managed cluster ingressHost runtimeVersion installationStatus installationType } } } }",
    "cli GetRuntime": "query GetRuntime($name: String!) { runtime(name: $name) { metadata { name namespace } self { syncStatus healthMessage healthStatus } syncStatus healthStatus healthMessage cluster managed isRemoteClusterConnected ingressHost internalIngressHost ingressClass ingressController runtimeVersion installationStatus installationType repo managedClustersNum gitProvider accessMode } }",
    "cli CreateRuntime": "mutation CreateRuntime($installationArgs: RuntimeInstallationArgs!) { createRuntime(installationArgs: $installationArgs) { name newAccessToken } }",
    "cli DeleteRuntime": "mutation DeleteRuntime($name: String!) { deleteRuntime(name: $name) }",
    "cli DeleteManagedRuntime": "mutation DeleteManagedRuntime($name: String!) { deleteManagedRuntime(name: $name) }",
    "cli MigrateRuntime": "mutation migrateRuntime($runtimeName: String!) { migrateRuntime(runtimeName: $runtimeName) }",
    "cli ReportRuntimeErrors": "mutation ReportRuntimeErrors($reportErrorsArgs: ReportRuntimeErrorsArgs!) { reportRuntimeErrors(reportErrorsArgs: $reportErrorsArgs) }",
    "cli SuggestIscRepo": "mutation suggestIscRepo($suggestedSharedConfigRepo: String!) { suggestIscRepo(suggestedSharedConfigRepo: $suggestedSharedConfigRepo) }",
    "cli UpdateCsdpSettings": "mutation updateCsdpSettings($gitProvider: GitProviders!, $gitApiUrl: String!, $sharedConfigRepo: String!) { updateCsdpSettings(gitProvider: $gitProvider, gitApiUrl: $gitApiUrl, sharedConfigRepo: $sharedConfigRepo) }",
    "cli Clusters": "query clusters($runtime: String, $pagination: SlicePaginationArgs) { clusters(runtime: $runtime, pagination: $pagination) { edges { node { metadata { name runtime } server info { connectionState { status message } serverVersion cacheInfo { resourcesCount apisCount } } } } pageInfo { endCursor hasNextPage } } }",
    "cli Components": "query Components($runtime: String!) { components(runtime: $runtime) { edges { node { metadata { name runtime } version self { status { syncStatus healthStatus } errors { ... on SyncError { title message suggestion level } } } } } } }",
    "cli GitSources": "query GitSources($runtime: String) { gitSources(runtime: $runtime) { edges { node { metadata { name } self { path repoURL status { syncStatus healthStatus } } } } } }",
    "cli Pipeline": "query Pipeline($runtime: String!, $name: String!, $namespace: String) { pipeline(name: $name, namespace: $namespace, runtime: $runtime) { metadata { name namespace runtime } self { healthStatus syncStatus version } projects spec { trigger } } }",
    "cli Pipelines": "query Pipelines($filters: PipelinesFilterArgs) { pipelines(filters: $filters) { edges { node { metadata { name namespace runtime } self { healthStatus syncStatus version } projects spec { trigger } } } } }",
    "cli Workflow": "query Workflow($uid: String!) { workflow(uid: $uid) { metadata { uid name namespace runtime } projects spec { entrypoint templates { name } workflowTemplateRef { name namespace } } status { phase progress nodes { type name } } pipeline { metadata { name namespace } } } }",
    "cli Workflows": "query Workflows($filters: WorkflowsFilterArgs) { workflows(filters: $filters) { edges { node { metadata { uid name namespace runtime } status { phase progress nodes { type name } } } } } }",
    "cli PromotionTemplate": "query($applicationMetadata: Object!) { promotionTemplateByRuntime(applicationMetadata: $applicationMetadata) { versionSource { file jsonPath } } }",
    "cli LimitsStatus": "query LimitsStatus { limitsStatus { usage { clusters applications } limits { clusters applications } status } }",
    "cli LatestCliRelease": "query LatestCliRelease { latestCliRelease }",
    "cli Promotions": f"query Promotions($filters: ProductReleaseFiltersArgs, $pagination: SlicePaginationArgs) {{ promotions(filters: $filters, pagination: $pagination) {{ {PAGE} edges {{ node {{ __typename ... on ProductRelease {{ {RELEASE} }} ... on Promotion {{ {PROMOTION} }} }} }} }} }}",
    "cli ProductReleases": "query getProductReleasesList($productName: String!, $filters: ProductReleaseFiltersArgs!, $pagination: SlicePaginationArgs) { productReleases(productName: $productName, filters: $filters, pagination: $pagination) { edges { node { releaseId triggerCommit { sha committer date message repoURL revision } steps { environmentName status applications { applicationId { runtime namespace name } commitSha } } status updatedAt createdAt } } } }",
    # ---- Terraform
    "terraform abacRules": f"query abacRules($accountId: String!, $entityType: AbacEntityValues!) {{ abacRules(accountId: $accountId, entityType: $entityType) {{ {ABAC} }} }}",
    "terraform abacRule": f"query abacRule($accountId: String!, $id: ID!) {{ abacRule(accountId: $accountId, id: $id) {{ {ABAC} }} }}",
    "terraform createAbacRule": f"mutation($accountId: String!, $createAbacRuleInput: CreateAbacRuleInput!) {{ createAbacRule(accountId: $accountId, createAbacRuleInput: $createAbacRuleInput) {{ {ABAC} }} }}",
    "terraform removeAbacRule": f"mutation($accountId: String!, $id: ID!) {{ removeAbacRule(accountId: $accountId, id: $id) {{ {ABAC} }} }}",
    "terraform me": "query { me { activeAccount { id name gitProvider gitApiUrl sharedConfigRepo admins } } }",
    # ---- CI steps
    "steps runtime": "query($runtime: String!) { runtime(name: $runtime) { metadata { name namespace } ingressHost } }",
    "steps application": "query($runtime: String!, $name: String!, $namespace: String) { application(runtime: $runtime, name: $name, namespace: $namespace) { metadata { runtime name namespace cluster __typename } healthStatus syncStatus syncPolicy } }",
    "steps releases": f"query($pagination: SlicePaginationArgs, $filters: GitopsReleaseFilterArgs, $sort: GitopsReleaseSortArg) {{ gitopsReleases(pagination: $pagination, filters: $filters, sort: $sort) {{ edges {{ node {{ current argoHistoryId application {{ status {{ syncStatus healthStatus }} }} }} }} {PAGE} }} }}",
    # ---- image and annotation reporters
    "images createImageBinary": "mutation($imageBinary: ImageBinaryInput!) { createImageBinary(imageBinary: $imageBinary) { id imageName workflowName } }",
    "images createImageLayers": "mutation($imageLayers: ImageLayersInput!) { createImageLayers(imageLayers: $imageLayers) { accountId created image layerDigests layers { created instruction size args } } }",
    "images createImageRegistry": "mutation($imageRegistry: ImageRegistryInput!) { createImageRegistry(imageRegistry: $imageRegistry) { binaryId repoDigest } }",
    "images patchImageBinary": "mutation($imageId: String, $imagePatch: ImageBinaryPatchInput!, $imageName: String) { patchImageBinary(imageId: $imageId, imagePatch: $imagePatch, imageName: $imageName) { imageName } }",
    "images saveAnnotation": "mutation($annotation: AnnotationArgs!) { saveAnnotation(annotation: $annotation) }",
    "chart deleteRuntime": "mutation deleteRuntime($name: String!) {\n deleteRuntime(name: $name) }",
    # ---- a runtime's app-proxy
    "app-proxy CreateRuntime": "mutation CreateRuntime($installationArgs: RuntimeInstallationArgs!) { createRuntime(installationArgs: $installationArgs) { newAccessToken } }",
    "app-proxy me": "query me { me { runtimeName activeAccount { id name gitProvider gitApiUrl sharedConfigRepo csdpValidated } } }",
    "app-proxy Runtime": "query Runtime($name: String!) { runtime(name: $name) { metadata { account namespace } installationStatus installationType ingressHost runtimeVersion } }",
    "app-proxy saveSealingKey": "mutation saveSealingKey($privateKey: String!) { saveSealingKey(privateKey: $privateKey) }",
    "app-proxy getSealingKey": "query getSealingKey($id: String!) { getSealingKey(id: $id) }",
    "app-proxy implicit configuration": "query shouldBeImplicitConfigurationRuntime { shouldBeImplicitConfigurationRuntime }",
    "app-proxy updateRuntimeClusters": "mutation updateRuntimeClusters($clusters: [ClusterUpsertArgs!]!) { updateRuntimeClusters(clusters: $clusters) }",
    "app-proxy GitSources": f"query GitSources($pagination: SlicePaginationArgs, $project: String, $runtime: String) {{ response: gitSources(pagination: $pagination, project: $project, runtime: $runtime) {{ edges {{ node {{ metadata {{ account runtime group version kind name namespace }} self {{ repoURL path revision }} permissions {{ userId read write }} }} }} {PAGE} }} }}",
    "app-proxy Applications": "query Applications($pagination: SlicePaginationArgs!, $filters: ApplicationsFilterArgs) { response: applications(pagination: $pagination, filters: $filters) { edges { node { metadata { name namespace runtime account } } } } }",
    "app-proxy components": "query { productComponentsList(filters: {hasPendingPullRequests: true}) { id pendingPullRequests { repo id } } }",
    "app-proxy PromotionData": "query PromotionData($r: String!, $ns: String!, $n: String!) { srcApp: application(runtime: $r, namespace: $ns, name: $n) { metadata { name cluster namespace } specSource { repoURL targetRevision path } } destApp: application(runtime: $r, namespace: $ns, name: $n) { metadata { name cluster namespace } specSource { repoURL targetRevision path } } promotionTemplate(runtime: $r, namespace: $ns, name: $n) { promotion { glob jsonPaths } versionSource { file jsonPath } } }",
    # ---- operator
    "operator tasks": "query { productReleaseTasks { type labels commitInfo { sha committer date message } appNamespace appName repoUrl branch path postActionOnly preAction actionUrl actionBody postAction workflowNamespace workflowName } }",
    "operator hooks": "query { productReleaseRunHooksTasks { type labels workflowTemplateName workflowNamespace workflowName parameters } }",
    "operator statuses": "query { productReleaseCommitStatuses { sha repoURL status description context targetUrl } }",
    # ---- the vendor's own page
    "page releases": "query($filters: GitopsReleaseFilterArgs) { gitopsReleases(filters: $filters) { edges { node { fromState { services { name } } toState { services { name } } transition { services { name } } application { committers { userName avatar } } } } } }",
    "page rolloutStepStatus": "query($r: String!) { rolloutStepStatus(runtime: $r) }",
}

# Not offered yet. One that validates must leave this list.
MISSING = set()
