// The documents that Codefresh's open clients send: what the schema offers validates; what it does not offer is a 400
// in the words that those clients look for.
#include "graphql_fixture.h"

static const char *const offered[] = {
    // go-sdk and the command line
    "query Me { me { id name email isAdmin accounts { id name } activeAccount { id name gitProvider gitApiUrl "
    "sharedConfigRepo admins features { gitopsPlanEnforcement } } } }",
    "query Runtimes { runtimes { edges { node { metadata { name namespace } self { syncStatus healthMessage "
    "healthStatus } "
    "syncStatus healthMessage healthStatus managed cluster ingressHost runtimeVersion installationStatus "
    "installationType } "
    "} } }",
    "query GetRuntime($name: String!) { runtime(name: $name) { metadata { name namespace } self { syncStatus "
    "healthMessage "
    "healthStatus } syncStatus healthStatus healthMessage cluster managed isRemoteClusterConnected ingressHost "
    "internalIngressHost ingressClass ingressController runtimeVersion installationStatus installationType repo "
    "managedClustersNum gitProvider accessMode } }",
    "mutation CreateRuntime($installationArgs: RuntimeInstallationArgs!) { createRuntime(installationArgs: "
    "$installationArgs) { name newAccessToken } }",
    "mutation DeleteRuntime($name: String!) { deleteRuntime(name: $name) }",
    "mutation DeleteManagedRuntime($name: String!) { deleteManagedRuntime(name: $name) }",
    "query clusters($runtime: String, $pagination: SlicePaginationArgs) { clusters(runtime: $runtime, pagination: "
    "$pagination) { edges { node { metadata { name runtime } server info { connectionState { status message } "
    "serverVersion "
    "cacheInfo { resourcesCount apisCount } } } } pageInfo { endCursor hasNextPage } } }",
    "query Workflow($name: String!) { workflow(uid: $name) { metadata { uid name namespace runtime } projects spec { "
    "entrypoint templates { name } workflowTemplateRef { name namespace } } status { phase progress nodes { type name "
    "} "
    "} pipeline { metadata { name namespace } } } }",
    "query Workflows($workflows: WorkflowsFilterArgs) { workflows(filters: $workflows) { edges { node { metadata { uid "
    "name } status { phase } } } } }",
    "query Rollouts($rollouts: RolloutFilterArgs) { rollouts(filters: $rollouts) { edges { node { metadata { name } "
    "spec { strategy { name newImage } } status { phase weightOfNew } } } } }",
    "query gitopsReleases($pagination: SlicePaginationArgs, $releases: GitopsReleaseFilterArgs, $sort: "
    "GitopsReleaseSortArg) { gitopsReleases(pagination: $pagination, filters: $releases, sort: $sort) { edges { node { "
    "current argoHistoryId application { status { syncStatus healthStatus } } } } pageInfo { startCursor endCursor "
    "hasNextPage hasPrevPage } } }",
    "query ($runtime: String!, $name: String!) { rollout(runtime: $runtime, name: $name) { actualManifest } }",
    "query LimitsStatus { limitsStatus { usage { clusters applications } limits { clusters applications } status } }",
    // Terraform, the sync step, the Helm hook
    "{ me { activeAccount { id name gitProvider gitApiUrl sharedConfigRepo admins } } }",
    "query getRuntime($runtime: String!) { runtime(name: $runtime) { metadata { name namespace } ingressHost } }",
    "query ($runtime: String!, $name: String!, $namespace: String) { application(runtime: $runtime, name: $name, "
    "namespace: "
    "$namespace) { metadata { runtime name namespace cluster __typename } healthStatus syncStatus syncPolicy } }",
    "mutation deleteRuntime($name: String!) {\n deleteRuntime(name: $name) }",
    "mutation ReportRuntimeErrors($reportErrorsArgs: ReportRuntimeErrorsArgs!) { "
    "reportRuntimeErrors(reportErrorsArgs: $reportErrorsArgs) }",
    // the image reporter of CI
    "mutation ($imageBinary: ImageBinaryInput!) { createImageBinary(imageBinary: $imageBinary) { id imageName "
    "workflowName } }",
    "mutation ($imageLayers: ImageLayersInput!) { createImageLayers(imageLayers: $imageLayers) { accountId created "
    "image "
    "layerDigests layers { created instruction size args } } }",
    "mutation ($imageRegistry: ImageRegistryInput!) { createImageRegistry(imageRegistry: $imageRegistry) { binaryId "
    "repoDigest } }",
    "mutation ($imageId: String, $imagePatch: ImageBinaryPatchInput!, $imageName: String) { patchImageBinary(imageId: "
    "$imageId, imagePatch: $imagePatch, imageName: $imageName) { imageName } }",
    "mutation ($annotation: AnnotationArgs!) { saveAnnotation(annotation: $annotation) }",
    // app-proxy
    "mutation CreateRuntime($installationArgs: RuntimeInstallationArgs!) { createRuntime(installationArgs: "
    "$installationArgs) { newAccessToken } }",
    "query me { me { runtimeName activeAccount { id name gitProvider gitApiUrl sharedConfigRepo csdpValidated } } }",
    "query Runtime($name: String!) { runtime(name: $name) { metadata { account namespace } installationStatus "
    "installationType ingressHost runtimeVersion } }",
    "query Applications($pagination: SlicePaginationArgs!, $filters: ApplicationsFilterArgs) { response: "
    "applications(pagination: $pagination, filters: $filters) { edges { node { metadata { name namespace runtime "
    "account } } "
    "} } }",
    "query Components($runtime: String!) { components(runtime: $runtime) { edges { node { version } } } }",
    "query GitSources($runtime: String) { gitSources(runtime: $runtime) { edges { node { metadata { name } } } } }",
    "query getSealingKey($id: String!) { getSealingKey(id: $id) }",
    "query PromotionApps($a: String!, $b: String!, $n: String) { srcApp: application(runtime: $a, namespace: $n, name: "
    "$a) { "
    "metadata { name cluster namespace } specSource { repoURL targetRevision path } } destApp: application(runtime: "
    "$b, "
    "namespace: $n, name: $b) { metadata { name cluster namespace } specSource { repoURL targetRevision path } } }",
};

static const struct {
    const char *query, *field, *type;
} lacking[] = {
    {"query Plans($runtime: String!) { promotionPlans(runtime: $runtime) { edges { node { version } } } }",
     "promotionPlans", "Query"},
    {"query Calendar($id: String!) { releaseCalendar(id: $id) }", "releaseCalendar", "Query"},
};

static void resolve_nothing(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg)
{
    assert_true(json_is_object(arguments));
    ++*(unsigned *)ctx;
    on_resolved(arg, NULL, NULL);
}

static const struct gql_resolver resolvers[] = {
    {GQL_QUERY, "me", resolve_nothing, .access = 1},
    {GQL_QUERY, "runtime", resolve_nothing, .access = 1},
    {GQL_QUERY, "runtimes", resolve_nothing, .access = 1},
    {GQL_QUERY, "clusters", resolve_nothing, .access = 1},
    {GQL_QUERY, "applicationSets", resolve_nothing, .access = 1},
    {GQL_QUERY, "application", resolve_nothing, .access = 1},
    {GQL_QUERY, "applications", resolve_nothing, .access = 1},
    {GQL_QUERY, "rollout", resolve_nothing, .access = 1},
    {GQL_QUERY, "rollouts", resolve_nothing, .access = 1},
    {GQL_QUERY, "workflow", resolve_nothing, .access = 1},
    {GQL_QUERY, "workflows", resolve_nothing, .access = 1},
    {GQL_QUERY, "gitopsReleases", resolve_nothing, .access = 1},
    {GQL_QUERY, "limitsStatus", resolve_nothing, .access = 1},
    {GQL_QUERY, "components", resolve_nothing, .access = 1},
    {GQL_QUERY, "gitSources", resolve_nothing, .access = 1},
    {GQL_QUERY, "getSealingKey", resolve_nothing, .access = 1},
    {GQL_MUTATION, "createRuntime", resolve_nothing, .access = 1},
    {GQL_MUTATION, "deleteRuntime", resolve_nothing, .access = 1},
    {GQL_MUTATION, "deleteManagedRuntime", resolve_nothing, .access = 1},
    {GQL_MUTATION, "reportRuntimeErrors", resolve_nothing, .access = 1},
    {GQL_MUTATION, "createImageBinary", resolve_nothing, .access = 1},
    {GQL_MUTATION, "createImageLayers", resolve_nothing, .access = 1},
    {GQL_MUTATION, "createImageRegistry", resolve_nothing, .access = 1},
    {GQL_MUTATION, "patchImageBinary", resolve_nothing, .access = 1},
    {GQL_MUTATION, "saveAnnotation", resolve_nothing, .access = 1},
};

struct answer {
    int status;
    char *text;
};

static void on_answered(void *arg, int status, struct str body)
{
    struct answer *answer = arg;
    answer->status = status;
    answer->text = mem_strndup(body.at, body.len);
}

static unsigned execute(const char *query, const char *variables, struct answer *out)
{
    unsigned resolved = 0;
    struct gql_schema *schema = schema_of(schema_sdl);
    json_t *given = json_of(variables);
    gql_execute(&(struct gql_request){.query = str_c(query),
                                      .variables = given,
                                      .schema = schema,
                                      .resolvers = resolvers,
                                      .resolver_count = sizeof resolvers / sizeof *resolvers,
                                      .limits = &default_limits,
                                      .answer_bytes_max = 65536,
                                      .mutations_allowed = true,
                                      .ctx = &resolved},
                on_answered, out);
    json_decref(given);
    gql_schema_destroy(schema);
    return resolved;
}

static void test_offered(void **state)
{
    (void)state;
    static const char variables[] =
        "{\"id\":\"k\",\"name\":\"prod\",\"id\":\"k\",\"runtime\":\"\",\"a\":\"one\",\"b\":\"two\",\"pagination\":{"
        "\"after\":\"\",\"first\":50},"
        "\"workflows\":{\"runtime\":\"\",\"namespace\":\"\",\"project\":\"\"},\"rollouts\":{\"runtime\":\"\"},"
        "\"filters\":{\"inactive\":true,\"includeComponents\":true},\"installationArgs\":{\"runtimeName\":\"prod\","
        "\"runtimeNamespace\":\"codefresh\",\"componentNames\":[],\"isExternalArgoCd\":false,\"chartVersion\":\"0.1."
        "0\","
        "\"cluster\":\"https://kubernetes.default.svc\",\"ingressClass\":\"nginx\",\"ingressController\":\"k8s.io\","
        "\"ingressHost\":\"https://x\",\"installationType\":\"HELM\",\"managed\":false,\"runtimeVersion\":\"0.1.0\"},"
        "\"reportErrorsArgs\":{\"runtime\":\"prod\",\"errors\":[{\"level\":\"ERROR\",\"message\":\"x\"}]},"
        "\"imageBinary\":{\"id\":\"i\",\"created\":\"now\",\"imageName\":\"web\"},\"imageLayers\":{\"image\":\"web\","
        "\"layers\":[]},\"imageRegistry\":{\"binaryId\":\"i\",\"created\":\"now\",\"imageName\":\"web\"},"
        "\"imagePatch\":{},\"annotation\":{\"entityType\":\"image\",\"key\":\"K-1\",\"type\":\"issue\"}}";
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
        struct answer answer;
        unsigned resolved = execute(offered[i], variables, &answer);
        if (answer.status != 200) fail_msg("%s\n  answers %d %s", offered[i], answer.status, answer.text);
        assert_true(resolved > 0);
        mem_free(answer.text);
    }
}

// Clients take the first member of data whatever its name, so there must be one, and no empty list of errors.
static void test_one_key(void **state)
{
    (void)state;
    struct answer answer;
    execute("query ($name: String!) { runtime(name: $name) { metadata { name } } }", "{\"name\":\"none\"}", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.text, "{\"data\":{\"runtime\":null}}");
    mem_free(answer.text);
}

static void test_lacking(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        struct answer answer;
        assert_int_equal(execute(lacking[i].query, "{}", &answer), 0);
        assert_int_equal(answer.status, 400);
        char wanted[200];
        snprintf(wanted, sizeof wanted, "Cannot query field \\\"%s\\\" on type \\\"%s\\\".", lacking[i].field,
                 lacking[i].type);
        if (!strstr(answer.text, wanted))
            fail_msg("%s\n  answers %s\n  without %s", lacking[i].query, answer.text, wanted);
        assert_null(strstr(answer.text, "\"data\""));
        mem_free(answer.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offered),
        cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
