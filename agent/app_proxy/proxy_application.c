#include "agent/app_proxy/proxy_application.h"

#include "base/json/json.h"

// The constant for a word of Argo CD.
static const char *constant_of(struct str word, const char *const (*words)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(word, str_c(words[i][0]))) return words[i][1];
    return "UNKNOWN";
}

static const char *health_of(struct str word)
{
    static const char *const words[][2] = {{"Healthy", "HEALTHY"},
                                           {"Degraded", "DEGRADED"},
                                           {"Missing", "MISSING"},
                                           {"Suspended", "SUSPENDED"},
                                           {"Progressing", "PROGRESSING"}};
    return constant_of(word, words, sizeof words / sizeof *words);
}

static const char *sync_of(struct str word)
{
    static const char *const words[][2] = {{"Synced", "SYNCED"}, {"OutOfSync", "OUT_OF_SYNC"}};
    return constant_of(word, words, sizeof words / sizeof *words);
}

static json_t *text_of(const json_t *object, const char *member)
{
    struct str text = json_get_str(object, member);
    return text.len ? json_new_str(text) : json_null();
}

static json_t *automated_of(const json_t *spec)
{
    const json_t *automated = json_path(spec, "syncPolicy", "automated", NULL);
    if (!json_is_object(automated) || !json_get_bool(automated, "enabled", true)) return json_null();
    return json_pack("{s:b, s:b}", "prune", json_get_bool(automated, "prune", false), "selfHeal",
                     json_get_bool(automated, "selfHeal", false));
}

static json_t *source_of(const json_t *spec)
{
    const json_t *source = json_get_object(spec, "source"), *sources = json_get_array(spec, "sources");
    if (!source) source = json_array_get(sources, 0);
    if (!source) return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "repoURL", text_of(source, "repoURL"), "path", text_of(source, "path"),
                     "targetRevision", text_of(source, "targetRevision"), "chart", text_of(source, "chart"));
}

json_t *proxy_application(const json_t *application)
{
    const json_t *metadata = json_get_object(application, "metadata"), *spec = json_get_object(application, "spec");
    const json_t *status = json_get_object(application, "status"), *health = json_get_object(status, "health");
    const json_t *sync = json_get_object(status, "sync"), *operation = json_get_object(status, "operationState");
    json_t *state = json_is_object(operation) ? json_pack("{s:o, s:o}", "phase", text_of(operation, "phase"), "message",
                                                          text_of(operation, "message"))
                                              : json_null();
    return json_pack("{s:{s:o, s:o, s:o}, s:{s:o, s:o, s:{s:o}}, s:{s:{s:s, s:o}, s:{s:s, s:o}, s:o}}", "metadata",
                     "name", json_new_str(json_get_str(metadata, "name")), "namespace",
                     json_new_str(json_get_str(metadata, "namespace")), "uid", text_of(metadata, "uid"), "spec",
                     "project", text_of(spec, "project"), "source", source_of(spec), "syncPolicy", "automated",
                     automated_of(spec), "status", "health", "status", health_of(json_get_str(health, "status")),
                     "message", text_of(health, "message"), "sync", "status", sync_of(json_get_str(sync, "status")),
                     "revision", text_of(sync, "revision"), "operationState", state);
}
