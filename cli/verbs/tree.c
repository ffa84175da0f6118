// tree: the resources of an application, each under its owner.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/printer.h"
#include "cli/row.h"
#include "cli/target.h"

enum { DEPTH_MAX = 32 };

static const char document[] = "query($runtime: String!, $name: String!, $namespace: String) { resourceTree(runtime: "
                               "$runtime, name: $name, namespace: $namespace) {"
                               " nodes { group kind namespace name uid parentRefs { kind namespace name uid } health { "
                               "status message } status presence"
                               " requiresPruning hook missingRight { message } } } }";

static const char *text_of(const json_t *row, const char *path)
{
    const char *text = row_text(row, path);
    return text ? text : "";
}

static bool is_parent(const json_t *node, const json_t *reference)
{
    const char *uid = text_of(reference, "uid");
    if (*uid && *text_of(node, "uid")) return strcmp(uid, text_of(node, "uid")) == 0;
    return strcmp(text_of(reference, "kind"), text_of(node, "kind")) == 0 &&
           strcmp(text_of(reference, "name"), text_of(node, "name")) == 0;
}

// The first of its parents that is in the list; the application (the first node) for those without.
static size_t parent_of(const json_t *nodes, size_t index)
{
    size_t i, k;
    json_t *reference, *node;
    json_array_foreach(json_object_get(json_array_get(nodes, index), "parentRefs"), i, reference)
    {
        json_array_foreach(nodes, k, node)
        {
            if (k != index && is_parent(node, reference)) return k;
        }
    }
    return 0;
}

struct tree {
    const json_t *nodes;
    size_t *parents;
    struct table table;
    bool *is_written; // circles of owners end here
};

static void add_cell(struct tree *tree, const char *text, const char *otherwise)
{
    struct strbuf cell;
    strbuf_init(&cell, 64 * 1024);
    row_write_safe(str_c(*text ? text : otherwise), false, &cell);
    table_add(&tree->table, strbuf_str(&cell));
    strbuf_finish(&cell);
}

static void add_message(struct tree *tree, const json_t *node)
{
    const char *presence = text_of(node, "presence"), *message = text_of(node, "health.message");
    if (!*message) message = text_of(node, "missingRight.message");
    if (!*message && *presence && strcmp(presence, "PRESENT") != 0) message = presence;
    if (!*message && json_is_true(row_at(node, "requiresPruning"))) message = "requires pruning";
    add_cell(tree, message, "");
}

static void add_node(struct tree *tree, size_t index, const char *prefix, bool is_last, size_t depth)
{
    const json_t *node = json_array_get(tree->nodes, index);
    struct strbuf name;
    strbuf_init(&name, 64 * 1024);
    strbuf_add_c(&name, prefix);
    if (depth) strbuf_add_c(&name, is_last ? "└─" : "├─");
    row_write_safe(str_c(text_of(node, "kind")), false, &name);
    strbuf_add_byte(&name, '/');
    row_write_safe(str_c(text_of(node, "name")), false, &name);
    table_add(&tree->table, strbuf_str(&name));
    strbuf_finish(&name);
    add_cell(tree, text_of(node, "namespace"), "<none>");
    add_cell(tree, text_of(node, "status"), "<none>");
    add_cell(tree, text_of(node, "health.status"), "<none>");
    add_message(tree, node);
}

static void add_children(struct tree *tree, size_t parent, const char *prefix, size_t depth)
{
    size_t last = 0;
    for (size_t i = 1; i < json_array_size(tree->nodes); i++)
        if (tree->parents[i] == parent) last = i;
    for (size_t i = 1; i <= last; i++) {
        if (tree->parents[i] != parent || tree->is_written[i]) continue;
        tree->is_written[i] = true;
        add_node(tree, i, prefix, i == last, depth);
        if (depth == DEPTH_MAX) continue;
        char *below = mem_printf("%s%s", prefix, i == last ? "  " : "│ ");
        add_children(tree, i, below, depth + 1);
        mem_free(below);
    }
}

static void print_tree(const json_t *nodes)
{
    size_t count = json_array_size(nodes);
    struct tree tree = {
        .nodes = nodes, .parents = mem_array(count, sizeof(size_t)), .is_written = mem_array(count, sizeof(bool))};
    for (size_t i = 1; i < count; i++)
        tree.parents[i] = parent_of(nodes, i);
    table_init(&tree.table, 5);
    static const char *const titles[] = {"RESOURCE", "NAMESPACE", "SYNC", "HEALTH", "MESSAGE"};
    for (size_t i = 0; i < 5; i++)
        table_add(&tree.table, str_c(titles[i]));
    add_node(&tree, 0, "", true, 0);
    add_children(&tree, 0, "", 1);
    // Those whose owners form a circle.
    for (size_t i = 1; i < count; i++)
        if (!tree.is_written[i]) add_node(&tree, i, "", false, 1);
    table_print(&tree.table, stdout);
    table_finish(&tree.table);
    mem_free(tree.parents);
    mem_free(tree.is_written);
}

int verb_tree(struct invocation *invocation)
{
    struct reference reference;
    struct error err;
    json_t *place = NULL, *data = NULL;
    const char *output = arguments_get(invocation->arguments, "output");
    enum error_code code = target_one(invocation, "application", &reference, &err);
    if (code == ERROR_NONE && strcmp(reference.noun->name, "application") != 0)
        code = error_set(&err, ERROR_INVALID, "tree is of an application, not of a %s", reference.noun->name);
    if (code == ERROR_NONE && output && strcmp(output, "json") != 0 && strcmp(output, "yaml") != 0)
        code = error_set(&err, ERROR_INVALID, "invalid output format \"%.60s\" of tree: must be json or yaml", output);
    if (code == ERROR_NONE) code = target_place(invocation, &reference, &place, &err);
    if (code == ERROR_NONE) code = client_query(invocation->client, document, place, "resourceTree", &data, &err);
    const json_t *nodes = json_object_get(json_object_get(data, "resourceTree"), "nodes");
    if (code == ERROR_NONE && !json_array_size(nodes))
        code = error_set(&err, ERROR_NOT_FOUND, "the application has no tree");
    if (code == ERROR_NONE && !output) print_tree(nodes);
    if (code == ERROR_NONE && output && *output == 'j') printer_write_json(nodes, 0), putchar('\n');
    if (code == ERROR_NONE && output && *output == 'y') printer_write_yaml(nodes, 0, false);
    json_decref(data);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
