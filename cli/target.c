#include "cli/target.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/row.h"

void target_set_defaults(const struct invocation *invocation, struct reference *reference)
{
    const struct arguments *arguments = invocation->arguments;
    const char *runtime = arguments_get(arguments, "runtime"), *namespace = arguments_get(arguments, "namespace");
    bool is_all = arguments_has(arguments, "all");
    if (!runtime && !is_all) runtime = invocation->context.runtime;
    if (!namespace && !is_all) namespace = invocation->context.namespace;
    if (!reference->runtime.len && runtime && reference->noun->runtime_path) reference->runtime = str_c(runtime);
    if (!reference->namespace.len && namespace && reference->noun->namespace_path)
        reference->namespace = str_c(namespace);
}

// Whether the word begins with a type of the table: "app/guestbook", but not "argocd/guestbook".
static const struct noun *type_of(const char *word)
{
    const char *slash = strchr(word, '/');
    char type[64];
    if (!slash || (size_t)(slash - word) >= sizeof type) return NULL;
    memcpy(type, word, (size_t)(slash - word));
    type[slash - word] = '\0';
    return noun_find(type);
}

enum error_code target_words(const struct invocation *invocation, const char *kind, struct reference *out,
                             size_t *out_count, struct error *err)
{
    const char *const *words = invocation->words;
    size_t count = invocation->word_count;
    // "get" style: TYPE NAME...
    const struct noun *noun = count > 1 ? noun_find(words[0]) : NULL;
    *out_count = 0;
    for (size_t i = noun ? 1 : 0; i < count; i++) {
        if (*out_count == TARGETS_MAX) return error_set(err, ERROR_INVALID, "more than %d names", TARGETS_MAX);
        const struct noun *own = noun ? NULL : type_of(words[i]), *of = noun ? noun : own ? own : noun_find(kind);
        const char *name = own ? strchr(words[i], '/') + 1 : words[i];
        struct reference *reference = &out[(*out_count)++];
        enum error_code code = reference_parse(of, name, reference, err);
        if (code != ERROR_NONE) return code;
        target_set_defaults(invocation, reference);
    }
    return *out_count ? ERROR_NONE : error_set(err, ERROR_INVALID, "the name of an object is needed, as %s/NAME", kind);
}

enum error_code target_one(const struct invocation *invocation, const char *kind, struct reference *out,
                           struct error *err)
{
    static struct reference references[TARGETS_MAX];
    size_t count;
    enum error_code code = target_words(invocation, kind, references, &count, err);
    if (code == ERROR_NONE && count != 1) code = error_set(err, ERROR_INVALID, "takes one name, not %zu", count);
    if (code == ERROR_NONE) *out = references[0];
    return code;
}

enum error_code target_place(const struct invocation *invocation, const struct reference *reference, json_t **out,
                             struct error *err)
{
    const struct noun *noun = reference->noun;
    const char *paths[4] = {noun->name_path};
    size_t count = 1;
    if (noun->namespace_path) paths[count++] = noun->namespace_path;
    if (noun->runtime_path) paths[count++] = noun->runtime_path;
    struct strbuf selection;
    strbuf_init(&selection, SELECTION_BYTES_MAX);
    noun_select_paths(paths, &selection);
    json_t *row = NULL;
    enum error_code code = reference_read(reference, invocation->client, selection.at, &row, err);
    strbuf_finish(&selection);
    if (code != ERROR_NONE) return code;
    *out = json_pack("{s:s?, s:s?, s:s?}", "name", row_text(row, noun->name_path), "namespace",
                     row_text(row, noun->namespace_path), "runtime", row_text(row, noun->runtime_path));
    json_decref(row);
    return ERROR_NONE;
}

// A workload is no noun of the platform: its place must be given whole.
static enum error_code workload_place(const struct invocation *invocation, const char *type, const char *name,
                                      json_t **out, struct error *err)
{
    static const struct {
        const char *type, *group, *kind;
    } kinds[] = {{"deployment", "apps", "Deployment"},
                 {"statefulset", "apps", "StatefulSet"},
                 {"daemonset", "apps", "DaemonSet"},
                 {"replicaset", "apps", "ReplicaSet"},
                 {"job", "batch", "Job"},
                 {"pod", "", "Pod"}};
    static const struct noun workload = {
        .name = "workload", .runtime_path = "runtime", .namespace_path = "namespace", .name_path = "name"};
    const char *group = "", *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].type, type) != 0) continue;
        group = kinds[i].group;
        kind = kinds[i].kind;
    }
    assert(kind);
    struct reference reference;
    enum error_code code = reference_parse(&workload, name, &reference, err);
    if (code != ERROR_NONE) return code;
    target_set_defaults(invocation, &reference);
    if (!reference.runtime.len || !reference.namespace.len)
        return error_set(err, ERROR_INVALID,
                         "%s/%.100s: give its place with -r RUNTIME and -n NAMESPACE, or as %s/RUNTIME/NAMESPACE/NAME",
                         type, name, type);
    *out = json_pack("{s:s, s:s, s:s%, s:s%, s:s%}", "group", group, "kind", kind, "runtime", reference.runtime.at,
                     reference.runtime.len, "namespace", reference.namespace.at, reference.namespace.len, "name",
                     reference.name.at, reference.name.len);
    return *out ? ERROR_NONE : error_set(err, ERROR_INVALID, "the name is no valid UTF-8");
}

// Whether a type is among those of a list joined by commas.
static bool is_among(const char *types, struct str type)
{
    struct str rest = str_c(types), item;
    bool has_more = true;
    while (has_more) {
        has_more = str_cut(&rest, ',', &item);
        if (str_eq(item, type)) return true;
    }
    return false;
}

enum error_code target_object(const struct invocation *invocation, const char *verb, const char *types,
                              const char *word, json_t **out, struct error *err)
{
    const char *slash = strchr(word, '/');
    size_t len = slash ? (size_t)(slash - word) : 0;
    char type[64] = "", first[64];
    if (len < sizeof type) memcpy(type, word, len);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(types, ","), types);
    const struct noun *noun = *type ? noun_find(type) : NULL;
    bool is_workload = *type && !noun && is_among(types, str_c(type));
    if (is_workload) return workload_place(invocation, type, slash + 1, out, err);
    if (noun && !is_among(types, str_c(noun->name)))
        return error_set(err, ERROR_INVALID, "%s takes %s, not %s", verb, types, noun->name);
    if (!noun && !noun_find(first)) return workload_place(invocation, first, word, out, err);
    struct reference reference;
    enum error_code code = reference_parse(noun ? noun : noun_find(first), noun ? slash + 1 : word, &reference, err);
    if (code != ERROR_NONE) return code;
    target_set_defaults(invocation, &reference);
    return target_place(invocation, &reference, out, err);
}

void target_sleep(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}
