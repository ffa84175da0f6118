// report_workflow: a run of Argo Workflows, with its nodes.
#include "base/json/json.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "modules/workflows/workflows.h"
#include "storage/reports/report_entity.h"

enum {
    TEXT_MAX = 4096,
    NAME_MAX_BYTES = 253,
    VALUE_MAX = 1024,
    JSON_MAX = 64 * 1024,
    TEMPLATES_MAX = 200,
    NODES_MAX = 500,
    NODES_BYTES_MAX = 1024 * 1024,
    CHILDREN_MAX = 100,
};

static struct str known_phase(struct str phase)
{
    static const char *const known[] = {"Pending", "Running", "Succeeded", "Failed", "Error"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(phase, str_c(known[i]))) return phase;
    return STR("Unknown");
}

// ---- spec ----------------------------------------------------------------------------------------------------------

static json_t *templates_of(const json_t *spec)
{
    json_t *names = json_array(), *each;
    size_t i;
    json_array_foreach(json_get_array(spec, "templates"), i, each)
    {
        struct str name = report_cut(json_get_str(each, "name"), NAME_MAX_BYTES);
        if (name.len && json_array_size(names) < TEMPLATES_MAX) json_array_append_new(names, json_new_str(name));
    }
    return names;
}

// Who asked for it: the label that Argo puts there, or the sensor of a pipeline.
static void plan_origin(struct report_plan *plan, struct sql_workflow_put *row, const json_t *labels)
{
    struct str pipeline = json_get_str(labels, "codefresh.io/pipeline-name");
    if (!pipeline.len) pipeline = json_get_str(labels, "events.argoproj.io/sensor");
    row->initiator = value_member(plan, labels, "workflows.argoproj.io/creator", NAME_MAX_BYTES);
    row->pipeline_name = value_cut(plan, pipeline, NAME_MAX_BYTES);
    row->pipeline_namespace = value_member(plan, labels, "codefresh.io/pipeline-namespace", NAME_MAX_BYTES);
    row->pipeline_trigger = value_member(plan, labels, "events.argoproj.io/trigger", NAME_MAX_BYTES);
    row->project = value_member(plan, labels, "codefresh.io/project", NAME_MAX_BYTES);
}

static void plan_spec(struct report_plan *plan, struct sql_workflow_put *row, const json_t *spec)
{
    const json_t *reference = json_get_object(spec, "workflowTemplateRef");
    json_t *templates = templates_of(spec);
    row->entrypoint = value_member(plan, spec, "entrypoint", NAME_MAX_BYTES);
    row->templates = value_json(plan, templates, JSON_MAX, "[]");
    row->template_name = value_member(plan, reference, "name", NAME_MAX_BYTES);
    row->is_template_cluster_wide = value_bool(json_get_bool(reference, "clusterScope", false));
    json_decref(templates);
}

// ---- status --------------------------------------------------------------------------------------------------------

static void copy_text(json_t *to, const json_t *from, const char *member, size_t bytes_max)
{
    struct str text = report_cut(json_get_str(from, member), bytes_max);
    if (text.len) json_object_set_new(to, member, json_new_str(text));
}

static json_t *children_of(const json_t *node)
{
    json_t *children = json_array(), *each;
    size_t i;
    json_array_foreach(json_get_array(node, "children"), i, each)
    {
        if (i >= CHILDREN_MAX) break;
        if (json_is_string(each) && json_string_length(each) <= NAME_MAX_BYTES) json_array_append(children, each);
    }
    return children;
}

static bool is_node_phase(struct str phase)
{
    static const char *const known[] = {"Pending", "Running", "Succeeded", "Skipped", "Failed", "Error", "Omitted"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(phase, str_c(known[i]))) return true;
    return false;
}

static json_t *node_of(const json_t *from)
{
    static const struct {
        const char *member;
        size_t bytes_max;
    } texts[] = {{"id", NAME_MAX_BYTES},           {"type", 64},      {"name", VALUE_MAX},
                 {"displayName", VALUE_MAX},       {"phase", 64},     {"templateName", NAME_MAX_BYTES},
                 {"templateScope", VALUE_MAX},     {"progress", 64},  {"message", VALUE_MAX},
                 {"hostNodeName", NAME_MAX_BYTES}, {"startedAt", 64}, {"finishedAt", 64}};
    json_t *node = json_object();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        copy_text(node, from, texts[i].member, texts[i].bytes_max);
    // Clients count on these three.
    for (size_t i = 1; i < 4; i++)
        if (!json_object_get(node, texts[i].member)) json_object_set_new(node, texts[i].member, json_string(""));
    struct str phase = json_get_str(node, "phase");
    if (phase.len && !is_node_phase(phase)) json_object_del(node, "phase");
    json_object_set_new(node, "children", children_of(from));
    return node;
}

// The nodes that go in, and how many pods of them are running.
static json_t *nodes_of(const json_t *status, int64_t *out_running)
{
    json_t *list = json_array(), *each;
    const char *id;
    *out_running = 0;
    json_object_foreach((json_t *)(uintptr_t)json_get_object(status, "nodes"), id, each)
    {
        if (str_eq(json_get_str(each, "type"), STR("Pod")) && str_eq(json_get_str(each, "phase"), STR("Running")))
            ++*out_running;
        if (json_array_size(list) < NODES_MAX) json_array_append_new(list, node_of(each));
    }
    return list;
}

static json_t *conditions_of(const json_t *status)
{
    enum { CONDITIONS_MAX = 20 };
    json_t *list = json_array(), *each;
    size_t i;
    json_array_foreach(json_get_array(status, "conditions"), i, each)
    {
        if (i >= CONDITIONS_MAX) break;
        json_t *one = json_object();
        copy_text(one, each, "type", 128);
        copy_text(one, each, "status", 64);
        copy_text(one, each, "message", VALUE_MAX);
        json_array_append_new(list, one);
    }
    return list;
}

static void plan_status(struct report_plan *plan, struct sql_workflow_put *row, const json_t *status)
{
    row->phase = value_text(plan, known_phase(json_get_str(status, "phase")));
    row->message = value_member(plan, status, "message", TEXT_MAX);
    row->progress = value_member(plan, status, "progress", 64);
    row->started_at = value_time_or_null(plan, json_get_str(status, "startedAt"));
    row->finished_at = value_time_or_null(plan, json_get_str(status, "finishedAt"));
}

static void plan_nodes(struct report_plan *plan, struct sql_workflow_put *row, const json_t *status)
{
    int64_t running;
    json_t *nodes = nodes_of(status, &running), *conditions = conditions_of(status);
    row->nodes = value_json(plan, nodes, NODES_BYTES_MAX, "[]");
    row->conditions = value_json(plan, conditions, JSON_MAX, "[]");
    row->resources_duration = value_json(plan, json_get_object(status, "resourcesDuration"), 4096, NULL);
    row->running_pods = value_int(plan, running);
    json_decref(nodes);
    json_decref(conditions);
}

void report_workflow_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                          struct str sha256)
{
    const json_t *metadata = json_get_object(manifest, "metadata"), *status = json_get_object(manifest, "status");
    const json_t *labels = json_get_object(metadata, "labels");
    json_t *kept = report_string_map(labels, VALUE_MAX);
    struct sql_workflow_put row = {
        ROW_ENTITY(plan, report, sha256),
        .uid = value_uid(plan, report, manifest),
        .version = value_text(plan, report->ref.version),
        .labels = value_json(plan, kept, JSON_MAX, "{}"),
        .created_at = value_time_or_null(plan, json_get_str(metadata, "creationTimestamp")),
    };
    plan_status(plan, &row, status);
    plan_spec(plan, &row, json_get_object(manifest, "spec"));
    plan_origin(plan, &row, labels);
    plan_nodes(plan, &row, status);
    report_plan_add(plan, workflow_put, &row);
    json_decref(kept);
}
