#include "agent/reports/fetches.h"

#include "agent/kube/kube_fetch.h"
#include "base/log/log.h"
#include "base/mem.h"

enum { ATTEMPTS_MAX = 5 };

struct fetch {
    struct fetches *fetches;
    struct kube_fetch *request;
    struct inventory_resource *resource; // NULL: dropped or forgotten meanwhile
};

struct fetches {
    struct fetches_options options;
    struct fetch under_way[FETCHES_AT_ONCE];
    struct inventory_resource **line; // a ring; NULL: forgotten meanwhile
    size_t head, count, room;
    uint64_t added, ended;
};

struct fetches *fetches_create(const struct fetches_options *options)
{
    struct fetches *fetches = mem_zalloc(sizeof *fetches);
    fetches->options = *options;
    return fetches;
}

void fetches_destroy(struct fetches *fetches)
{
    if (!fetches) return;
    for (size_t i = 0; i < FETCHES_AT_ONCE; i++)
        kube_fetch_cancel(fetches->under_way[i].request);
    mem_free(fetches->line);
    mem_free(fetches);
}

// ---- the line ------------------------------------------------------------------------------------------------------

static void push(struct fetches *fetches, struct inventory_resource *resource)
{
    if (fetches->count == fetches->room) {
        size_t room = fetches->room ? fetches->room * 2 : 64;
        struct inventory_resource **line = mem_array(room, sizeof *line);
        for (size_t i = 0; i < fetches->count; i++)
            line[i] = fetches->line[(fetches->head + i) % fetches->room];
        mem_free(fetches->line);
        fetches->line = line;
        fetches->room = room;
        fetches->head = 0;
    }
    fetches->line[(fetches->head + fetches->count++) % fetches->room] = resource;
    fetches->added++;
    resource->in_line = true;
}

static struct inventory_resource *pop(struct fetches *fetches)
{
    struct inventory_resource *resource = fetches->line[fetches->head];
    fetches->head = (fetches->head + 1) % fetches->room;
    fetches->count--;
    if (resource) resource->in_line = false;
    return resource;
}

void fetches_add(struct fetches *fetches, struct inventory_resource *resource)
{
    if (resource->fetching) return;
    resource->fetching = true;
    resource->attempts = 0;
    if (!resource->in_line) push(fetches, resource);
}

static void leave_under_way(struct fetches *fetches, const struct inventory_resource *resource)
{
    for (size_t i = 0; i < FETCHES_AT_ONCE; i++)
        if (fetches->under_way[i].resource == resource) fetches->under_way[i].resource = NULL;
}

void fetches_drop(struct fetches *fetches, struct inventory_resource *resource)
{
    if (!resource->fetching) return;
    resource->fetching = false;
    leave_under_way(fetches, resource);
}

void fetches_forget(struct fetches *fetches, const struct inventory_resource *resource)
{
    if (resource->fetching) leave_under_way(fetches, resource);
    for (size_t i = 0; resource->in_line && i < fetches->count; i++) {
        struct inventory_resource **entry = &fetches->line[(fetches->head + i) % fetches->room];
        if (*entry == resource) *entry = NULL;
    }
}

// ---- asking --------------------------------------------------------------------------------------------------------

static void on_fetched(void *arg, int status, json_t *value, const struct error *err)
{
    struct fetch *fetch = arg;
    struct fetches *fetches = fetch->fetches;
    struct inventory_resource *resource = fetch->resource;
    fetch->request = NULL;
    fetch->resource = NULL;
    fetches->ended++;
    if (!resource) return;
    resource->fetching = false;
    if (value) {
        // Deleted while it was asked for: an old answer must not bring it back.
        if (resource->uid) fetches->options.on_fetched(fetches->options.arg, resource, value);
        return;
    }
    // 404: the watch will say so, too. 403: there is a watch without the right to get; a list has the content, too.
    bool is_final = status == 404 || status == 403;
    if (is_final || resource->attempts >= ATTEMPTS_MAX) {
        log_debug("collector", "not_fetched", log_int("status", status), log_c("error", err ? err->text : ""));
        if (status != 404) fetches->options.on_failed(fetches->options.arg, resource);
        return;
    }
    unsigned attempts = resource->attempts + 1;
    fetches_add(fetches, resource);
    resource->attempts = attempts;
}

// False: no more can be started now.
static bool start(struct fetches *fetches, struct fetch *fetch, struct inventory_resource *resource)
{
    bool wanted = resource && resource->reported && resource->fetching;
    AUTO_FREE char *path = wanted ? fetches->options.path_of(fetches->options.arg, resource) : NULL;
    if (!path) {
        if (resource) resource->fetching = false;
        fetches->ended++;
        return true;
    }
    *fetch = (struct fetch){.fetches = fetches, .resource = resource};
    fetch->request = kube_fetch_start(fetches->options.client, path, on_fetched, fetch);
    if (fetch->request) return true;
    fetch->resource = NULL;
    fetches->ended++;
    push(fetches, resource);
    return false;
}

void fetches_tick(struct fetches *fetches)
{
    for (size_t i = 0; i < FETCHES_AT_ONCE; i++)
        while (!fetches->under_way[i].request && fetches->count)
            if (!start(fetches, &fetches->under_way[i], pop(fetches))) return;
}

uint64_t fetches_added(const struct fetches *fetches)
{
    return fetches->added;
}

uint64_t fetches_ended(const struct fetches *fetches)
{
    return fetches->ended;
}
