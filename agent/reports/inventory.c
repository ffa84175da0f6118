#include "agent/reports/inventory.h"

#include <string.h>

#include "agent/kube/entry_ref.h"
#include "agent/reports/key_table.h"
#include "base/json/json.h"
#include "base/mem.h"

enum { CLAIMS_MAX = 20000, DEPTH_MAX = 8 };

// It outlives its object for as long as a resource takes itself for its own: owners may go round in circles.
struct inventory_application {
    char *ns, *name;
    char *elsewhere;   // the destination that is another cluster; NULL: it is this one
    size_t references; // of resources
    bool gone;
    struct claims {
        struct inventory_resource **at;
        size_t count;
    } named, tree; // by its status, and by Argo CD's resource tree
};

struct inventory {
    const struct inventory_events *events;
    void *arg;
    struct key_table *kinds;        // by group/kind
    struct key_table *resources;    // by group/kind/ns/name
    struct key_table *by_uid;       // those that were seen
    struct key_table *by_owner;     // first of the siblings, by the owner's uid
    struct key_table *applications; // by ns/name
    uint64_t round;                 // of reading an application's resources
    size_t resources_max;
    uint64_t left_out;
    struct destinations *destinations; // may be NULL
    bool ignores_applications;         // those that are seen are objects as others
};

// ---- life ----------------------------------------------------------------------------------------------------

struct inventory *inventory_create(const struct inventory_events *events, void *arg, size_t resources_max,
                                   struct destinations *destinations)
{
    struct inventory *inventory = mem_zalloc(sizeof *inventory);
    inventory->events = events;
    inventory->arg = arg;
    inventory->destinations = destinations;
    inventory->resources_max = resources_max ? resources_max : INVENTORY_RESOURCES_MAX;
    inventory->kinds = key_table_create();
    inventory->resources = key_table_create();
    inventory->by_uid = key_table_create();
    inventory->by_owner = key_table_create();
    inventory->applications = key_table_create();
    return inventory;
}

static void application_free(struct inventory_application *application)
{
    mem_free(application->ns);
    mem_free(application->name);
    mem_free(application->named.at);
    mem_free(application->tree.at);
    mem_free(application->elsewhere);
    mem_free(application);
}

static void set_elsewhere(struct inventory *inventory, struct inventory_application *application, struct str elsewhere);

static void set_application(struct inventory_resource *resource, struct inventory_application *application)
{
    struct inventory_application *old = resource->application;
    if (application) application->references++;
    resource->application = application;
    if (old && --old->references == 0 && old->gone) application_free(old);
}

static void resource_free(struct inventory_resource *resource)
{
    set_application(resource, NULL);
    char *texts[] = {resource->ns,
                     resource->name,
                     resource->uid,
                     resource->owner_uid,
                     resource->sync_status,
                     resource->health_status,
                     resource->health_message,
                     resource->key};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mem_free(texts[i]);
    mem_free(resource);
}

void inventory_destroy(struct inventory *inventory)
{
    if (!inventory) return;
    size_t cursor = 0;
    for (struct inventory_resource *resource; (resource = key_table_next(inventory->resources, &cursor, NULL));)
        resource_free(resource);
    cursor = 0;
    for (struct inventory_application *one; (one = key_table_next(inventory->applications, &cursor, NULL));) {
        set_elsewhere(inventory, one, STR_EMPTY);
        application_free(one);
    }
    cursor = 0;
    for (struct inventory_kind *kind; (kind = key_table_next(inventory->kinds, &cursor, NULL));) {
        mem_free(kind->group);
        mem_free(kind->version);
        mem_free(kind->kind);
        mem_free(kind);
    }
    key_table_destroy(inventory->kinds);
    key_table_destroy(inventory->resources);
    key_table_destroy(inventory->by_uid);
    key_table_destroy(inventory->by_owner);
    key_table_destroy(inventory->applications);
    mem_free(inventory);
}

struct inventory_kind *inventory_kind_of(struct inventory *inventory, struct str group, struct str version,
                                         struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(group), STR_ARG(name));
    struct inventory_kind *kind = key_table_get(inventory->kinds, str_c(key));
    if (kind || key_table_count(inventory->kinds) == INVENTORY_KINDS_MAX) return kind;
    kind = mem_zalloc(sizeof *kind);
    kind->group = mem_strndup(group.len ? group.at : "", group.len);
    kind->version = mem_strndup(version.len ? version.at : "", version.len);
    kind->kind = mem_strndup(name.len ? name.at : "", name.len);
    key_table_put(inventory->kinds, str_c(key), kind);
    return kind;
}

struct inventory_kind *inventory_next_kind(const struct inventory *inventory, size_t *cursor)
{
    return key_table_next(inventory->kinds, cursor, NULL);
}

static char *resource_key(const struct inventory_kind *kind, struct str ns, struct str name)
{
    return mem_printf("%s/%s/%.*s/%.*s", kind->group, kind->kind, STR_ARG(ns), STR_ARG(name));
}

static struct inventory_resource *resource_of(struct inventory *inventory, struct inventory_kind *kind, struct str ns,
                                              struct str name)
{
    char *key = resource_key(kind, ns, name);
    struct inventory_resource *resource = key_table_get(inventory->resources, str_c(key));
    bool full = key_table_count(inventory->resources) >= inventory->resources_max;
    if (!resource && full) inventory->left_out++;
    if (resource || full) {
        mem_free(key);
        return resource;
    }
    resource = mem_zalloc(sizeof *resource);
    resource->kind = kind;
    resource->ns = mem_strndup(ns.len ? ns.at : "", ns.len);
    resource->name = mem_strndup(name.len ? name.at : "", name.len);
    resource->key = key;
    resource->next = kind->first;
    if (resource->next) resource->next->previous = resource;
    kind->first = resource;
    key_table_put(inventory->resources, str_c(key), resource);
    return resource;
}

// ---- uid and owner -------------------------------------------------------------------------------------------

static void set_uid(struct inventory *inventory, struct inventory_resource *resource, struct str uid)
{
    if (resource->uid && str_eq(str_c(resource->uid), uid)) return;
    if (resource->uid && key_table_get(inventory->by_uid, str_c(resource->uid)) == resource)
        key_table_remove(inventory->by_uid, str_c(resource->uid));
    mem_free(resource->uid);
    resource->uid = uid.len ? mem_strndup(uid.at, uid.len) : NULL;
    if (resource->uid) key_table_put(inventory->by_uid, uid, resource);
}

static void set_owner(struct inventory *inventory, struct inventory_resource *resource, struct str owner)
{
    if (resource->owner_uid ? str_eq(str_c(resource->owner_uid), owner) : owner.len == 0) return;
    if (resource->owner_uid) {
        struct str old = str_c(resource->owner_uid);
        if (resource->sibling) resource->sibling->sibling_previous = resource->sibling_previous;
        if (resource->sibling_previous)
            resource->sibling_previous->sibling = resource->sibling;
        else if (resource->sibling)
            key_table_put(inventory->by_owner, old, resource->sibling);
        else
            key_table_remove(inventory->by_owner, old);
        resource->sibling = resource->sibling_previous = NULL;
        mem_free(resource->owner_uid);
        resource->owner_uid = NULL;
    }
    if (!owner.len) return;
    resource->owner_uid = mem_strndup(owner.at, owner.len);
    resource->sibling = key_table_get(inventory->by_owner, owner);
    if (resource->sibling) resource->sibling->sibling_previous = resource;
    key_table_put(inventory->by_owner, owner, resource);
}

// The controller among the owners, else the first.
static struct str owner_uid(const json_t *metadata)
{
    const json_t *owners = json_get_array(metadata, "ownerReferences");
    size_t i;
    json_t *owner;
    json_array_foreach(owners, i, owner) if (json_get_bool(owner, "controller", false)) return json_get_str(owner,
                                                                                                            "uid");
    return json_get_str(json_array_get(owners, 0), "uid");
}

static struct inventory_resource *owner_of(const struct inventory *inventory, const struct inventory_resource *resource)
{
    return resource->owner_uid ? key_table_get(inventory->by_uid, str_c(resource->owner_uid)) : NULL;
}

static struct inventory_resource *first_child(const struct inventory *inventory,
                                              const struct inventory_resource *resource)
{
    return resource->uid ? key_table_get(inventory->by_owner, str_c(resource->uid)) : NULL;
}

// ---- what is reported ----------------------------------------------------------------------------------------

static void forget_if_empty(struct inventory *inventory, struct inventory_resource *resource)
{
    if (resource->uid || resource->claims) return;
    inventory->events->on_forget(inventory->arg, resource);
    set_owner(inventory, resource, STR_EMPTY);
    if (resource->next) resource->next->previous = resource->previous;
    if (resource->previous)
        resource->previous->next = resource->next;
    else
        resource->kind->first = resource->next;
    key_table_remove(inventory->resources, str_c(resource->key));
    resource_free(resource);
}

static bool is_wanted(const struct inventory *inventory, const struct inventory_resource *resource)
{
    const struct inventory_resource *owner = owner_of(inventory, resource);
    return resource->kind->always || resource->claims || (owner && owner != resource && owner->reported);
}

static void set_text(char **text, struct str fresh, bool *changed)
{
    struct str old = str_c(*text);
    if (str_eq(old, fresh)) return;
    mem_free(*text);
    *text = fresh.len ? mem_strndup(fresh.at, fresh.len) : NULL;
    *changed = true;
}

static void set_flag(bool *flag, bool fresh, bool *changed)
{
    *changed = *changed || *flag != fresh;
    *flag = fresh;
}

// What belongs to an application only through its owner takes the owner's.
static bool inherit(const struct inventory *inventory, struct inventory_resource *resource)
{
    if (resource->claims) return false;
    const struct inventory_resource *owner = owner_of(inventory, resource);
    struct inventory_application *application = owner && owner->reported ? owner->application : NULL;
    bool changed = resource->application != application;
    set_application(resource, application);
    set_text(&resource->sync_status, STR_EMPTY, &changed);
    set_text(&resource->health_status, STR_EMPTY, &changed);
    set_text(&resource->health_message, STR_EMPTY, &changed);
    set_flag(&resource->requires_pruning, false, &changed);
    set_flag(&resource->is_hook, false, &changed);
    return changed;
}

// Applies to a seen resource what has changed around it; then to those it owns. Depth ends cycles of owners.
static void settle(struct inventory *inventory, struct inventory_resource *resource, bool changed, int depth)
{
    if (!resource->uid || depth > DEPTH_MAX) return;
    changed = inherit(inventory, resource) || changed;
    bool wanted = is_wanted(inventory, resource), was = resource->reported;
    resource->reported = wanted;
    if (was && !wanted) inventory->events->on_gone(inventory->arg, resource);
    if (wanted && (!was || changed)) inventory->events->on_stale(inventory->arg, resource);
    if (was == wanted && !changed) return;
    for (struct inventory_resource *child = first_child(inventory, resource); child; child = child->sibling)
        if (child != resource) settle(inventory, child, false, depth + 1);
}

void inventory_doubt(struct inventory_kind *kind)
{
    kind->absent_due = true;
}

static void remove_seen(struct inventory *inventory, struct inventory_resource *resource)
{
    if (!resource->uid) return;
    if (resource->claims) inventory_doubt(resource->kind);
    bool was = resource->reported;
    struct inventory_resource *child = first_child(inventory, resource);
    if (was) inventory->events->on_gone(inventory->arg, resource);
    resource->reported = resource->absent = false;
    set_uid(inventory, resource, STR_EMPTY);
    for (; was && child; child = child->sibling)
        if (child != resource) settle(inventory, child, false, 0);
    forget_if_empty(inventory, resource);
}

// ---- applications --------------------------------------------------------------------------------------------

static void claim(struct claims *claims, struct inventory_resource *resource, uint64_t round)
{
    resource->claims++;
    resource->kind->claims++;
    resource->round = round;
    claims->at[claims->count++] = resource;
}

static bool holds(const struct claims *claims, const struct inventory_resource *resource)
{
    for (size_t i = 0; i < claims->count; i++)
        if (claims->at[i] == resource) return true;
    return false;
}

// Another application that names it, when the one it belonged to lets go.
static struct inventory_application *other_claimant(const struct inventory *inventory,
                                                    const struct inventory_resource *resource)
{
    size_t cursor = 0;
    for (struct inventory_application *one; (one = key_table_next(inventory->applications, &cursor, NULL));)
        if (holds(&one->named, resource) || holds(&one->tree, resource)) return one;
    return NULL;
}

static void let_go(struct inventory *inventory, struct inventory_application *application,
                   struct inventory_resource *resource, bool is_tree)
{
    resource->claims--;
    resource->tree_claims -= is_tree;
    resource->kind->claims--;
    bool changed = false;
    bool claimed_again = resource->round == inventory->round && resource->claims;
    if (resource->application == application && !claimed_again) {
        set_application(resource, resource->claims ? other_claimant(inventory, resource) : NULL);
        changed = true;
    }
    if (resource->uid) {
        settle(inventory, resource, changed, 0);
        return;
    }
    if (resource->absent && !resource->claims) inventory->events->on_gone(inventory->arg, resource);
    if (changed) inventory_doubt(resource->kind);
    forget_if_empty(inventory, resource);
}

static bool is_path_word(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '.' || c == ':' || c == '_';
        if (!good) return false;
    }
    return s.len <= 253 && !str_eq(s, STR("..")) && !str_eq(s, STR("."));
}

// Notes one entry of status.resources. Its words become parts of paths, so they are checked.
static void take_entry(struct inventory *inventory, struct inventory_application *application, const json_t *entry,
                       bool is_tree)
{
    const struct object_ref ref = entry_ref(entry);
    const struct str words[] = {ref.group, ref.version, ref.kind, ref.ns, ref.name};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!is_path_word(words[i])) return;
    if (!ref.version.len || !ref.kind.len || !ref.name.len) return;
    struct inventory_kind *kind = inventory_kind_of(inventory, ref.group, ref.version, ref.kind);
    if (!kind) inventory->left_out++;
    struct inventory_resource *resource = kind ? resource_of(inventory, kind, ref.ns, ref.name) : NULL;
    if (!resource) return;
    claim(is_tree ? &application->tree : &application->named, resource, inventory->round);
    resource->tree_claims += is_tree;
    bool changed = !resource->application || resource->claims == 1;
    if (changed) set_application(resource, application);
    if (resource->application != application) return;                // another one's first
    if (is_tree && resource->claims > resource->tree_claims) return; // its status has the details
    set_text(&resource->sync_status, json_get_str(entry, "status"), &changed);
    set_flag(&resource->requires_pruning, json_get_bool(entry, "requiresPruning", false), &changed);
    set_flag(&resource->is_hook, json_get_bool(entry, "hook", false), &changed);
    set_text(&resource->health_status, json_str(json_path(entry, "health", "status", NULL)), &changed);
    set_text(&resource->health_message, json_str(json_path(entry, "health", "message", NULL)), &changed);
    if (changed && (!resource->uid || resource->absent)) inventory_doubt(kind);
    settle(inventory, resource, changed, 0);
}

// Where it deploys, if that is another cluster, whose objects are not read; else empty.
static struct str elsewhere_of(const struct inventory *inventory, const json_t *object)
{
    const json_t *destination = json_path(object, "spec", "destination", NULL);
    struct str server = json_get_str(destination, "server"), name = json_get_str(destination, "name");
    if (destinations_is_own(inventory->destinations, server, name)) return STR_EMPTY;
    return server.len ? server : name;
}

static void set_elsewhere(struct inventory *inventory, struct inventory_application *application, struct str elsewhere)
{
    if (str_eq(str_c(application->elsewhere), elsewhere)) return;
    if (application->elsewhere) destinations_leave(inventory->destinations, str_c(application->elsewhere));
    mem_free(application->elsewhere);
    application->elsewhere = elsewhere.len ? mem_strndup(elsewhere.at, elsewhere.len) : NULL;
    if (elsewhere.len) destinations_enter(inventory->destinations, elsewhere);
}

static void set_claims(struct inventory *inventory, struct inventory_application *application, const json_t *entries,
                       bool is_tree)
{
    struct claims *claims = is_tree ? &application->tree : &application->named, old = *claims;
    size_t count = json_array_size(entries);
    if (count > CLAIMS_MAX) {
        inventory->left_out += count - CLAIMS_MAX;
        count = CLAIMS_MAX;
    }
    *claims = (struct claims){.at = mem_array(count + 1, sizeof *claims->at)};
    inventory->round++;
    for (size_t i = 0; i < count; i++)
        take_entry(inventory, application, json_array_get(entries, i), is_tree);
    // The old claims go after the new ones came, so that what stays is never let go in between.
    for (size_t i = 0; i < old.count; i++)
        let_go(inventory, application, old.at[i], is_tree);
    mem_free(old.at);
}

void inventory_tree(struct inventory *inventory, struct str ns, struct str name, const json_t *entries)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    struct inventory_application *application = key_table_get(inventory->applications, str_c(key));
    if (application) set_claims(inventory, application, application->elsewhere ? NULL : entries, true);
}

static struct inventory_application *application_of(struct inventory *inventory, struct str ns, struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    struct inventory_application *application = key_table_get(inventory->applications, str_c(key));
    if (application) return application;
    application = mem_zalloc(sizeof *application);
    application->ns = mem_strndup(ns.len ? ns.at : "", ns.len);
    application->name = mem_strndup(name.len ? name.at : "", name.len);
    key_table_put(inventory->applications, str_c(key), application);
    return application;
}

static void tell_elsewhere(struct inventory *inventory, struct str ns, struct str name, struct str elsewhere,
                           const json_t *entries)
{
    if (inventory->events->on_elsewhere) inventory->events->on_elsewhere(inventory->arg, ns, name, elsewhere, entries);
}

static void application_seen(struct inventory *inventory, struct str ns, struct str name, const json_t *object)
{
    struct inventory_application *application = application_of(inventory, ns, name);
    struct str elsewhere = elsewhere_of(inventory, object);
    const json_t *entries = json_path(object, "status", "resources", NULL);
    bool was = application->elsewhere != NULL;
    set_elsewhere(inventory, application, elsewhere);
    set_claims(inventory, application, elsewhere.len ? NULL : entries, false);
    if (elsewhere.len) set_claims(inventory, application, NULL, true);
    if (was || elsewhere.len) tell_elsewhere(inventory, ns, name, elsewhere, elsewhere.len ? entries : NULL);
}

static void application_gone(struct inventory *inventory, struct str ns, struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    struct inventory_application *application = key_table_get(inventory->applications, str_c(key));
    if (!application) return;
    if (application->elsewhere) tell_elsewhere(inventory, ns, name, STR_EMPTY, NULL);
    set_elsewhere(inventory, application, STR_EMPTY);
    set_claims(inventory, application, NULL, false);
    set_claims(inventory, application, NULL, true);
    key_table_remove(inventory->applications, str_c(key));
    application->gone = true;
    if (application->references == 0) application_free(application);
}

void inventory_application(struct inventory *inventory, struct str ns, struct str name, const json_t *entries)
{
    if (entries)
        set_claims(inventory, application_of(inventory, ns, name), entries, false);
    else
        application_gone(inventory, ns, name);
}

void inventory_forget_applications(struct inventory *inventory)
{
    size_t cursor = 0;
    for (const struct inventory_application *one; (one = key_table_next(inventory->applications, &cursor, NULL));) {
        AUTO_FREE char *ns = mem_strdup(one->ns), *name = mem_strdup(one->name);
        application_gone(inventory, str_c(ns), str_c(name));
    }
}

bool inventory_has_application(const struct inventory *inventory, struct str ns, struct str name)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
    return key_table_get(inventory->applications, str_c(key)) != NULL;
}

void inventory_ignore_applications(struct inventory *inventory)
{
    inventory->ignores_applications = true;
}

static bool is_application(const struct inventory *inventory, const struct inventory_kind *kind)
{
    return !inventory->ignores_applications && strcmp(kind->kind, "Application") == 0 &&
           strcmp(kind->group, "argoproj.io") == 0;
}

// ---- what is seen --------------------------------------------------------------------------------------------

void inventory_seen(struct inventory *inventory, struct inventory_kind *kind, uint64_t generation, json_t *object)
{
    const json_t *metadata = json_get_object(object, "metadata");
    struct str ns = json_get_str(metadata, "namespace"), name = json_get_str(metadata, "name"),
               uid = json_get_str(metadata, "uid");
    if (!name.len || !uid.len) return;
    struct inventory_resource *resource = resource_of(inventory, kind, ns, name);
    if (!resource) return;
    if (generation) resource->generation = generation;
    set_uid(inventory, resource, uid);
    set_owner(inventory, resource, owner_uid(metadata));
    bool inherited = inherit(inventory, resource), was = resource->reported;
    resource->reported = is_wanted(inventory, resource);
    if (is_application(inventory, kind)) application_seen(inventory, ns, name, object);
    // The views into object end here.
    resource->absent = false;
    if (resource->reported)
        inventory->events->on_report(inventory->arg, resource, object);
    else if (was)
        inventory->events->on_gone(inventory->arg, resource);
    if (was == resource->reported && !inherited) return;
    for (struct inventory_resource *child = first_child(inventory, resource); child; child = child->sibling)
        if (child != resource) settle(inventory, child, false, 0);
}

void inventory_deleted(struct inventory *inventory, struct inventory_kind *kind, struct str ns, struct str name)
{
    AUTO_FREE char *key = resource_key(kind, ns, name);
    struct inventory_resource *resource = key_table_get(inventory->resources, str_c(key));
    if (is_application(inventory, kind)) application_gone(inventory, ns, name);
    if (resource) remove_seen(inventory, resource);
}

void inventory_sweep(struct inventory *inventory, struct inventory_kind *kind, const char *ns, uint64_t generation)
{
    // Removing one may free others (an application lets go of what it named), so the keys are gathered first.
    size_t count = 0, room = 0;
    char **gone = NULL;
    for (struct inventory_resource *resource = kind->first; resource; resource = resource->next) {
        if (!resource->uid || resource->generation == generation || (ns && strcmp(ns, resource->ns) != 0)) continue;
        if (count == room) gone = mem_realloc(gone, (room = room ? room * 2 : 64) * sizeof *gone);
        gone[count++] = mem_strdup(resource->key);
    }
    for (size_t i = 0; i < count; i++) {
        struct inventory_resource *resource = key_table_get(inventory->resources, str_c(gone[i]));
        if (resource && is_application(inventory, kind))
            application_gone(inventory, str_c(resource->ns), str_c(resource->name));
        resource = key_table_get(inventory->resources, str_c(gone[i]));
        if (resource) remove_seen(inventory, resource);
        mem_free(gone[i]);
    }
    mem_free(gone);
}

struct inventory_resource *inventory_find(const struct inventory *inventory, const struct object_ref *ref)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s/%.*s/%.*s", STR_ARG(ref->group), STR_ARG(ref->kind), STR_ARG(ref->ns),
                                     STR_ARG(ref->name));
    return key_table_get(inventory->resources, str_c(key));
}

struct object_ref inventory_ref(const struct inventory_resource *resource)
{
    return (struct object_ref){.group = str_c(resource->kind->group),
                               .version = str_c(resource->kind->version),
                               .kind = str_c(resource->kind->kind),
                               .ns = str_c(resource->ns),
                               .name = str_c(resource->name),
                               .uid = str_c(resource->uid)};
}

struct str inventory_application_ns(const struct inventory_resource *resource)
{
    return str_c(resource->application ? resource->application->ns : NULL);
}

struct str inventory_application_name(const struct inventory_resource *resource)
{
    return str_c(resource->application ? resource->application->name : NULL);
}

size_t inventory_application_count(const struct inventory *inventory)
{
    return key_table_count(inventory->applications);
}

uint64_t inventory_left_out(const struct inventory *inventory)
{
    return inventory->left_out;
}

size_t inventory_count(const struct inventory *inventory)
{
    return key_table_count(inventory->resources);
}
