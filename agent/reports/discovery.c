#include "agent/reports/discovery.h"

#include "agent/kube/kube_fetch.h"
#include "agent/reports/key_table.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"

enum { FRESH_MS = 600000, ABSENT_MS = 60000, RETRY_BASE_MS = 500, RETRY_CAP_MS = 30000, GROUPS_MAX = 1000 };

// The resources of one group and version.
struct api_group {
    struct discovery *discovery;
    struct kube_fetch *fetch;
    json_t *resources; // NULL until there is a list
    bool absent;       // the last that was said of it: it is not served
    struct backoff backoff;
    uint64_t ask_again_at_ms;
};

struct discovery {
    struct kube_client *client;
    struct key_table *groups; // by path
};

struct discovery *discovery_create(struct kube_client *client)
{
    struct discovery *discovery = mem_zalloc(sizeof *discovery);
    discovery->client = client;
    discovery->groups = key_table_create();
    return discovery;
}

void discovery_destroy(struct discovery *discovery)
{
    if (!discovery) return;
    size_t cursor = 0;
    for (struct api_group *group; (group = key_table_next(discovery->groups, &cursor, NULL));) {
        kube_fetch_cancel(group->fetch);
        json_decref(group->resources);
        mem_free(group);
    }
    key_table_destroy(discovery->groups);
    mem_free(discovery);
}

static void on_resources(void *arg, int status, json_t *value, const struct error *err)
{
    struct api_group *group = arg;
    group->fetch = NULL;
    json_t *resources = json_get_array(value, "resources");
    bool said = resources || status == 404;
    if (!said) {
        // Says nothing of what is served: who took that for "nothing" would have all of it deleted.
        group->ask_again_at_ms = clock_mono_ms() + backoff_next_ms(&group->backoff);
        log_warn("discovery", "group_not_discovered", log_int("status", status), log_c("error", err ? err->text : ""));
        return;
    }
    uint64_t wait_ms = resources ? FRESH_MS : ABSENT_MS / 2;
    group->ask_again_at_ms = clock_mono_ms() + wait_ms + id_random_below(wait_ms);
    group->absent = !resources;
    backoff_reset(&group->backoff);
    if (!resources) return; // what was once served goes on to be listed, where a 404 says the rest
    json_decref(group->resources);
    group->resources = json_incref(resources);
}

static bool has_verb(const json_t *resource, const char *verb)
{
    size_t i;
    json_t *word;
    json_array_foreach(json_get_array(resource, "verbs"), i, word) if (str_eq(json_str(word), str_c(verb))) return true;
    return false;
}

// A plural becomes part of a path: only what a DNS label may hold.
static bool is_plural(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!((name.at[i] >= 'a' && name.at[i] <= 'z') || (name.at[i] >= '0' && name.at[i] <= '9') ||
              name.at[i] == '-'))
            return false;
    return name.len > 0 && name.len <= 253;
}

static enum discovery_answer find_kind(const struct api_group *group, const char *kind, const char **out_plural,
                                       bool *out_namespaced)
{
    size_t i;
    json_t *resource;
    json_array_foreach(group->resources, i, resource)
    {
        struct str name = json_get_str(resource, "name");
        if (!str_eq(json_get_str(resource, "kind"), str_c(kind)) || !is_plural(name)) continue;
        if (!has_verb(resource, "list") || !has_verb(resource, "watch")) continue;
        *out_plural = name.at;
        *out_namespaced = json_get_bool(resource, "namespaced", true);
        return DISCOVERY_FOUND;
    }
    return DISCOVERY_UNKNOWN;
}

enum discovery_answer discovery_find(struct discovery *discovery, const char *group_name, const char *version,
                                     const char *kind, uint64_t now_ms, const char **out_plural, bool *out_namespaced)
{
    AUTO_FREE char *path =
        *group_name ? mem_printf("/apis/%s/%s", group_name, version) : mem_printf("/api/%s", version);
    struct api_group *group = key_table_get(discovery->groups, str_c(path));
    if (!group) {
        if (key_table_count(discovery->groups) == GROUPS_MAX) return DISCOVERY_UNKNOWN;
        group = mem_zalloc(sizeof *group);
        group->discovery = discovery;
        backoff_init(&group->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
        key_table_put(discovery->groups, str_c(path), group);
    }
    if (!group->fetch && now_ms >= group->ask_again_at_ms)
        group->fetch = kube_fetch_start(discovery->client, path, on_resources, group);
    if (group->resources) return find_kind(group, kind, out_plural, out_namespaced);
    if (group->absent) return DISCOVERY_UNKNOWN;
    return group->backoff.failures ? DISCOVERY_FAILING : DISCOVERY_ASKING;
}
