#include "agent/logs/log_pods.h"

#include "base/json/json.h"

// ---- selectors ----------------------------------------------------------------------------------

// Of a label's key or value: what may stand in a query as it is; the API refuses all others, too.
static bool is_label_text(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_plain && !str_has_byte(STR("-._/"), c)) return false;
    }
    return text.len <= 317; // a prefix of 253, "/", a name of 63
}

static bool add_labels(const json_t *labels, struct strbuf *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        struct str text = json_str(value);
        if (!is_label_text(str_c(key)) || !is_label_text(text)) return false;
        strbuf_addf(out, "%s%s%%3D%.*s", out->len ? "%2C" : "", key, STR_ARG(text));
    }
    return true;
}

static bool add_values(const json_t *values, struct strbuf *out)
{
    size_t i;
    json_t *value;
    json_array_foreach((json_t *)(uintptr_t)values, i, value)
    {
        struct str text = json_str(value);
        if (!is_label_text(text)) return false;
        strbuf_addf(out, "%s%.*s", i ? "%2C" : "", STR_ARG(text));
    }
    return true;
}

static bool add_expression(const json_t *expression, struct strbuf *out)
{
    struct str key = json_get_str(expression, "key"), how = json_get_str(expression, "operator");
    const json_t *values = json_get_array(expression, "values");
    bool is_in = str_eq(how, STR("In")), has_values = is_in || str_eq(how, STR("NotIn"));
    if (!key.len || !is_label_text(key)) return false;
    strbuf_add_c(out, out->len ? "%2C" : "");
    if (str_eq(how, STR("Exists"))) return strbuf_add_str(out, key);
    if (str_eq(how, STR("DoesNotExist"))) return strbuf_add_c(out, "%21") && strbuf_add_str(out, key);
    if (!has_values || !json_array_size(values)) return false;
    strbuf_addf(out, "%.*s+%s+%%28", STR_ARG(key), is_in ? "in" : "notin");
    return add_values(values, out) && strbuf_add_c(out, "%29");
}

bool log_pods_add_selector(const json_t *workload, struct strbuf *out)
{
    const json_t *selector = json_path(workload, "spec", "selector", NULL);
    const json_t *labels = json_get_object(selector, "matchLabels");
    // A ReplicationController's.
    bool is_plain = selector && !labels && !json_object_get(selector, "matchExpressions");
    size_t i, before = out->len;
    json_t *expression;
    if (!add_labels(is_plain ? selector : labels, out)) return false;
    json_array_foreach(json_get_array(selector, "matchExpressions"), i,
                       expression) if (!add_expression(expression, out)) return false;
    return out->len > before && !out->overflow;
}

// ---- containers ---------------------------------------------------------------------------------

static const json_t *find_named(const json_t *list, struct str name)
{
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)list, i, each) if (str_eq(json_get_str(each, "name"), name)) return each;
    return NULL;
}

// What runs, or ran last; `previous` is what ran before that.
static struct str instance_of(const struct log_query *query, const json_t *status)
{
    struct str before = json_str(json_path(status, "lastState", "terminated", "containerID", NULL));
    if (query->previous) return before;
    struct str now = json_get_str(status, "containerID");
    return now.len ? now : before;
}

static struct str reason_of(const struct log_query *query, const json_t *status)
{
    if (query->previous) return STR("no earlier instance of it is kept");
    struct str reason = json_str(json_path(status, "state", "waiting", "reason", NULL));
    return reason.len ? reason : STR("it has not started");
}

bool log_pods_each_container(const struct log_query *query, const json_t *pod,
                             void (*on_container)(void *arg, const struct log_container *container), void *arg)
{
    static const char *const lists[][2] = {{"initContainers", "initContainerStatuses"},
                                           {"containers", "containerStatuses"},
                                           {"ephemeralContainers", "ephemeralContainerStatuses"}};
    struct str ns = json_str(json_path(pod, "metadata", "namespace", NULL));
    struct str name = json_str(json_path(pod, "metadata", "name", NULL));
    struct str phase = json_str(json_path(pod, "status", "phase", NULL));
    if (!log_name_ok(ns) || !log_name_ok(name)) return false;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        const json_t *statuses = json_get_array(json_get_object(pod, "status"), lists[l][1]);
        size_t i;
        json_t *each;
        json_array_foreach(json_get_array(json_get_object(pod, "spec"), lists[l][0]), i, each)
        {
            struct log_container container = {ns, name, json_get_str(each, "name"), STR_EMPTY, STR_EMPTY, false};
            const json_t *status = find_named(statuses, container.name);
            if (!log_name_ok(container.name) || !log_query_wants(query, container.name)) continue;
            container.instance = instance_of(query, status);
            container.is_running = json_path(status, "state", "running", NULL) != NULL;
            if (!container.instance.len) container.waits = reason_of(query, status);
            on_container(arg, &container);
        }
    }
    return !str_eq(phase, STR("Succeeded")) && !str_eq(phase, STR("Failed"));
}

// ---- Applications -------------------------------------------------------------------------------

void log_pods_each_workload(const json_t *application,
                            void (*on_workload)(void *arg, const struct log_kind *kind, struct str ns, struct str name),
                            void *arg)
{
    struct str destination = json_str(json_path(application, "spec", "destination", "namespace", NULL));
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(json_get_object(application, "status"), "resources"), i, each)
    {
        const struct log_kind *kind = log_kind_find(json_get_str(each, "group"), json_get_str(each, "kind"));
        struct str ns = json_get_str(each, "namespace"), name = json_get_str(each, "name");
        if (!ns.len) ns = destination;
        bool has_pods = kind && !str_eq(str_c(kind->name), STR("Application"));
        if (has_pods && log_name_ok(ns) && log_name_ok(name)) on_workload(arg, kind, ns, name);
    }
}
