// Answers of Argo CD's API, separated by NUL bytes: two resource trees of one Application, one
// after the other, then the metadata of two of its commits. A first byte of '4' makes an answer a
// 403. Any bytes leave bounded nodes with known verdicts, and texts that are bounded UTF-8.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/argo/argo_commits.h"
#include "agent/argo/argo_trees.h"
#include "agent/kube/entry_ref.h"
#include "agent/kube/kube_client.h"
#include "base/clock.h"
#include "base/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

enum { NODES_MAX = 32, STEP_MS = 3600000, TURNS_MAX = 100, MESSAGE_BYTES_MAX = 1024, COMMIT_BYTES_MAX = 64 * 1024 };

static const char application[] =
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"argocd\"},\"spec\":{\"source\":{\"repoURL\":\"git://x\"}},"
    "\"status\":{\"sync\":{\"revision\":\"0123456789012345678901234567890123456789\"},\"history\":[{\"id\":1,"
    "\"source\":{\"repoURL\":\"git://x\"},\"revision\":\"abcdefabcdabcdefabcdabcdefabcdabcdefabcd\"}]}}";

struct world {
    struct kube_request *open;
    struct argo_trees *trees;
    uint64_t now_ms;
};

static void on_begin(void *ctx, struct kube_request *request, const char *path)
{
    struct world *world = ctx;
    if (world->open || strncmp(path, "/api/v1/applications/web/", 25) != 0) abort();
    world->open = request;
}

static void on_resume(void *ctx, struct kube_request *request)
{
    (void)ctx, (void)request;
}

static void on_cancel(void *ctx, struct kube_request *request)
{
    struct world *world = ctx;
    if (world->open == request) world->open = NULL;
}

static void check_node(const struct world *world, const json_t *from)
{
    static const char *const known[] = {"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"};
    const struct argo_node_key key = {STR("argocd"), STR("web"), entry_ref(from)};
    struct argo_node *node = argo_trees_find(world->trees, &key);
    if (!node) return; // no room
    const char *verdict = argo_node_verdict(node, NULL, 0);
    bool is_known = !verdict;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known = is_known || strcmp(known[i], verdict) == 0;
    if (!is_known) abort();
    if (node->message && (strlen(node->message) > MESSAGE_BYTES_MAX || !str_is_utf8(str_c(node->message)))) abort();
}

static size_t on_tree(void *arg, struct str ns, struct str name, const json_t *nodes)
{
    const struct world *world = arg;
    size_t i;
    json_t *each;
    if (!str_eq(ns, STR("argocd")) || !str_eq(name, STR("web"))) abort();
    json_array_foreach((json_t *)(uintptr_t)nodes, i, each) check_node(world, each);
    return 0;
}

static void on_known(void *arg, struct str ns, struct str name)
{
    (void)arg, (void)ns, (void)name;
}

static void answer(struct world *world, struct loop *loop, struct str body)
{
    for (int i = 0; i < TURNS_MAX && !world->open; i++)
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    struct kube_request *request = world->open;
    world->open = NULL;
    if (!request) abort();
    bool is_refused = body.len && body.at[0] == '4';
    if (is_refused || kube_request_answer(request, 200, body.at, body.len) != KUBE_BODY_STOP) {
        if (is_refused) kube_request_answer(request, 403, NULL, 0);
        kube_request_end(request, NULL);
    }
}

static void check_commits(struct argo_commits *commits, const json_t *object)
{
    json_t *known = argo_commits_of(commits, object);
    size_t len = 0;
    char *text = known ? json_canonical(known, &len) : NULL;
    if (len > COMMIT_BYTES_MAX || (text && !str_is_utf8(str_of(text, len)))) abort();
    free(text);
    json_decref(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static struct loop *loop;
    static struct world world;
    static const struct kube_transport transport = {on_begin, on_resume, on_cancel, &world};
    if (!loop) loop = loop_create("fuzz", 0);
    struct str rest = str_of((const char *)at, len), piece;
    struct error err;
    world = (struct world){.now_ms = clock_mono_ms()};
    struct argo_api *api = argo_api_create(&(struct argo_api_options){.loop = loop,
                                                                      .url = "https://argocd",
                                                                      .token_file = "/nonexistent",
                                                                      .ca_file = "",
                                                                      .timeout_ms = 1000,
                                                                      .bytes_max = 64 * 1024,
                                                                      .requests_max = 1,
                                                                      .transport = &transport},
                                           &err);
    if (!api) abort();
    world.trees = argo_trees_create(&(struct argo_trees_options){
        .api = api, .interval_ms = 1, .refresh_ms = 1, .nodes_max = NODES_MAX, .on_tree = on_tree, .arg = &world});
    struct argo_commits *commits = argo_commits_create(
        &(struct argo_commits_options){.api = api, .commits_max = 2, .retry_ms = 1, .on_known = on_known});
    json_t *object = json_loads(application, 0, NULL);
    for (int i = 0; i < 4 && rest.len; i++) {
        if (!str_cut(&rest, '\0', &piece)) piece = rest, rest = STR_EMPTY;
        world.now_ms += STEP_MS;
        if (i < 2) argo_trees_touch(world.trees, STR("argocd"), STR("web"));
        if (i >= 2) check_commits(commits, object);
        if (i < 2)
            argo_trees_tick(world.trees, world.now_ms);
        else
            argo_commits_tick(commits, world.now_ms);
        answer(&world, loop, piece);
    }
    check_commits(commits, object);
    json_decref(object);
    argo_commits_destroy(commits);
    argo_trees_destroy(world.trees);
    argo_api_destroy(api);
    for (int i = 0; i < TURNS_MAX && uv_run(loop_uv(loop), UV_RUN_NOWAIT); i++)
        ;
    return 0;
}
