#include "agent/argo/argo_trees.h"

#include <stdio.h>
#include <string.h>

#include "agent/kube/entry_ref.h"
#include "agent/reports/findings.h"
#include "agent/reports/key_table.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { MESSAGE_BYTES_MAX = 1024, NAME_BYTES_MAX = 512, BEHIND_MAX = 6, MISSING_WAIT_MS = 30000 };

struct argo_tree {
    struct argo_trees *trees;
    char *ns, *name;
    struct argo_request *request;
    struct argo_node *first;
    uint64_t read_at_ms; // begun last; 0: never
    uint64_t due_at_ms;  // not before
    unsigned behind;     // reads in a row that were older than what is known
    bool touched, refused;
};

struct argo_trees {
    struct argo_trees_options options;
    struct key_table *trees; // by ns/name
    struct key_table *nodes; // by application and group/kind/ns/name
    uint64_t round;
    size_t refused;
    bool is_full;
    struct metric *node_count, *left_out;
};

struct argo_trees *argo_trees_create(const struct argo_trees_options *options)
{
    struct argo_trees *trees = mem_zalloc(sizeof *trees);
    trees->options = *options;
    trees->trees = key_table_create();
    trees->nodes = key_table_create();
    trees->node_count = metric_with(
        metrics_gauge("culvert_agent_argocd_nodes", "Nodes of Argo CD's resource trees that are kept.", NULL));
    trees->left_out = metric_with(metrics_counter("culvert_agent_argocd_nodes_left_out_total",
                                                  "Nodes of resource trees beyond argocd.nodes_max.", NULL));
    return trees;
}

static void node_free(struct argo_node *node)
{
    char *owned[] = {node->message,   node->uid,        node->created_at, node->owner_kind,
                     node->owner_api, node->owner_name, node->owner_uid,  node->key};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        mem_free(owned[i]);
    mem_free(node);
}

// Nodes that the last reading did not name.
static void sweep(struct argo_tree *tree, uint64_t round)
{
    for (struct argo_node **link = &tree->first; *link;) {
        struct argo_node *node = *link;
        if (node->round == round && node->tree == tree) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        if (key_table_get(tree->trees->nodes, str_c(node->key)) == node)
            key_table_remove(tree->trees->nodes, str_c(node->key));
        node_free(node);
    }
}

static void tree_free(struct argo_tree *tree)
{
    argo_request_cancel(tree->request);
    sweep(tree, 0);
    tree->trees->refused -= tree->refused;
    mem_free(tree->ns);
    mem_free(tree->name);
    mem_free(tree);
}

void argo_trees_destroy(struct argo_trees *trees)
{
    if (!trees) return;
    size_t cursor = 0;
    for (struct argo_tree *tree; (tree = key_table_next(trees->trees, &cursor, NULL));)
        tree_free(tree);
    key_table_destroy(trees->trees);
    key_table_destroy(trees->nodes);
    mem_free(trees);
}

// -------------------------------------------------------------------------------------------------

uint64_t argo_version_of(struct str text)
{
    // Opaque, and only compared.
    return text.len ? hash_end(hash_part(HASH_BEGIN, text)) | 1 : 0;
}

static const char *status_of(struct str text)
{
    static const char *const known[] = {"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(text, str_c(known[i]))) return known[i];
    return NULL;
}

static void set(char **to, struct str text, size_t bytes_max)
{
    size_t len = text.len < bytes_max ? text.len : bytes_max;
    while (len && len < text.len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    if (*to && str_eq(str_c(*to), str_first(text, len))) return;
    mem_free(*to);
    *to = len ? mem_strndup(text.at, len) : NULL;
}

// Two Applications may name an object of the same name, each in a cluster of its own.
static char *key_of(const struct argo_node_key *key)
{
    return mem_printf("%.*s/%.*s\n%.*s/%.*s/%.*s/%.*s", STR_ARG(key->application_ns), STR_ARG(key->application_name),
                      STR_ARG(key->ref.group), STR_ARG(key->ref.kind), STR_ARG(key->ref.ns), STR_ARG(key->ref.name));
}

static struct argo_node *node_of(struct argo_tree *tree, const json_t *from)
{
    struct argo_trees *trees = tree->trees;
    char *key = key_of(&(struct argo_node_key){str_c(tree->ns), str_c(tree->name), entry_ref(from)});
    struct argo_node *node = key_table_get(trees->nodes, str_c(key));
    if (node) {
        mem_free(key);
        return node;
    }
    if (key_table_count(trees->nodes) >= trees->options.nodes_max) {
        metric_add(trees->left_out, 1);
        if (!trees->is_full) log_warn("argocd", "nodes_left_out", log_uint("max", trees->options.nodes_max));
        trees->is_full = true;
        mem_free(key);
        return NULL;
    }
    node = mem_zalloc(sizeof *node);
    node->tree = tree;
    node->key = key;
    node->next = tree->first;
    tree->first = node;
    key_table_put(trees->nodes, str_c(key), node);
    return node;
}

static void take_node(struct argo_tree *tree, const json_t *from)
{
    struct argo_node *node = node_of(tree, from);
    if (!node) return;
    const json_t *health = json_get_object(from, "health");
    const json_t *owner = json_array_get(json_get_array(from, "parentRefs"), 0);
    struct str group = json_get_str(owner, "group"), version = json_get_str(owner, "version");
    AUTO_FREE char *api = mem_printf("%.*s%s%.*s", STR_ARG(group), group.len ? "/" : "", STR_ARG(version));
    uint64_t at = argo_version_of(json_get_str(from, "resourceVersion"));
    if (at != node->version) node->overrules = node->overrules && status_of(json_get_str(health, "status"));
    node->round = tree->trees->round;
    node->version = at;
    node->status = status_of(json_get_str(health, "status"));
    set(&node->message, json_get_str(health, "message"), MESSAGE_BYTES_MAX);
    set(&node->uid, json_get_str(from, "uid"), NAME_BYTES_MAX);
    set(&node->created_at, json_get_str(from, "createdAt"), NAME_BYTES_MAX);
    set(&node->owner_kind, json_get_str(owner, "kind"), NAME_BYTES_MAX);
    set(&node->owner_api, owner ? str_c(api) : STR_EMPTY, NAME_BYTES_MAX);
    set(&node->owner_name, json_get_str(owner, "name"), NAME_BYTES_MAX);
    set(&node->owner_uid, json_get_str(owner, "uid"), NAME_BYTES_MAX);
}

static void set_refused(struct argo_tree *tree, bool refused)
{
    tree->trees->refused += (size_t)refused - (size_t)tree->refused;
    tree->refused = refused;
}

static void on_tree(void *arg, int status, json_t *value)
{
    struct argo_tree *tree = arg;
    struct argo_trees *trees = tree->trees;
    uint64_t now_ms = clock_mono_ms(), refresh_ms = trees->options.refresh_ms;
    tree->request = NULL;
    set_refused(tree, status == 403);
    if (!value) {
        // Not to be asked for in a circle: it may be gone, not cached yet, or not ours to read.
        tree->due_at_ms = now_ms + (refresh_ms < MISSING_WAIT_MS ? refresh_ms : MISSING_WAIT_MS);
        tree->touched = false;
        return;
    }
    const json_t *nodes = json_get_array(value, "nodes");
    size_t i;
    json_t *node;
    trees->round++;
    json_array_foreach((json_t *)(uintptr_t)nodes, i, node) take_node(tree, node);
    sweep(tree, trees->round);
    metric_set(trees->node_count, (int64_t)key_table_count(trees->nodes));
    size_t behind = trees->options.on_tree(trees->options.arg, str_c(tree->ns), str_c(tree->name), nodes);
    tree->behind = behind ? tree->behind + 1 : 0;
    bool again = tree->touched || (behind && tree->behind <= BEHIND_MAX);
    unsigned shift = tree->behind < BEHIND_MAX ? tree->behind : BEHIND_MAX;
    tree->due_at_ms = tree->read_at_ms + (again ? trees->options.interval_ms << shift : refresh_ms);
}

static bool start(struct argo_tree *tree, uint64_t now_ms)
{
    AUTO_FREE char *name = argo_api_escape(str_c(tree->name)), *ns = argo_api_escape(str_c(tree->ns));
    AUTO_FREE char *path = mem_printf("/api/v1/applications/%s/resource-tree?appNamespace=%s", name, ns);
    tree->touched = false;
    tree->read_at_ms = now_ms;
    tree->request = argo_api_get(tree->trees->options.api, path, on_tree, tree);
    return tree->request != NULL;
}

void argo_trees_tick(struct argo_trees *trees, uint64_t now_ms)
{
    while (argo_api_is_free(trees->options.api, now_ms)) {
        struct argo_tree *first = NULL;
        size_t cursor = 0;
        for (struct argo_tree *tree; (tree = key_table_next(trees->trees, &cursor, NULL));)
            if (!tree->request && (!first || tree->due_at_ms < first->due_at_ms)) first = tree;
        if (!first || first->due_at_ms > now_ms || !start(first, now_ms)) return;
    }
}

// -------------------------------------------------------------------------------------------------

void argo_trees_touch(struct argo_trees *trees, struct str ns, struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    struct argo_tree *tree = key_table_get(trees->trees, str_c(key));
    if (!tree) {
        tree = mem_zalloc(sizeof *tree);
        tree->trees = trees;
        tree->ns = mem_strndup(ns.at, ns.len);
        tree->name = mem_strndup(name.at, name.len);
        key_table_put(trees->trees, str_c(key), tree);
    }
    if (tree->touched) return;
    tree->touched = true;
    tree->behind = 0;
    uint64_t due_ms = tree->read_at_ms ? tree->read_at_ms + trees->options.interval_ms : 0;
    // What could not be read is not asked for sooner.
    if (due_ms < tree->due_at_ms && (tree->first || !tree->read_at_ms)) tree->due_at_ms = due_ms;
}

void argo_trees_forget(struct argo_trees *trees, struct str ns, struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    struct argo_tree *tree = key_table_remove(trees->trees, str_c(key));
    if (tree) tree_free(tree);
}

struct argo_node *argo_trees_find(const struct argo_trees *trees, const struct argo_node_key *key)
{
    AUTO_FREE char *text = key_of(key);
    return key_table_get(trees->nodes, str_c(text));
}

const char *argo_node_verdict(struct argo_node *node, const char *own, uint64_t version)
{
    if (!node || !node->status) return own;
    if (!own) return node->status;
    if (version && version == node->version) {
        node->overrules = strcmp(node->status, own) != 0;
        return node->status;
    }
    return node->overrules ? node->status : own;
}

void argo_trees_findings(const struct argo_trees *trees, json_t *findings)
{
    if (!trees->refused) return;
    char message[256];
    snprintf(message, sizeof message,
             "Argo CD's API does not let the agent read %zu of %zu Applications: their health is the agent's own "
             "assessment, their releases have no commits",
             trees->refused, key_table_count(trees->trees));
    findings_add(
        findings, "ARGOCD_RIGHT_MISSING", FINDING_WARNING, message,
        "give the account of argocd.token_file the right applications, get, */* (policy.csv in argocd-rbac-cm)");
}
