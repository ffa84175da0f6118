#include "api/events/event_versions.h"

#include "api/events/event_manifest.h"
#include "base/mem.h"

// Without the credentials in it: charts come from addresses that may have some.
static void copy_text(const json_t *from, json_t *to, const char *key, size_t bytes_max, struct arena *arena)
{
    struct str text = json_get_str(from, key);
    if (text.len && text.len <= bytes_max)
        json_object_set_new(to, key, json_new_str(event_manifest_scrub(text, arena)));
}

struct str event_versions_text(const json_t *payload, struct arena *arena)
{
    static const char *const files[] = {"lock", "deps", "requirements"};
    const json_t *said = json_get_object(payload, "appVersions");
    const json_t *dependencies = json_get_object(said, "dependencies");
    json_t *versions = json_object(), *texts = json_object();
    copy_text(said, versions, "appVersion", EVENT_VERSION_BYTES_MAX, arena);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        copy_text(dependencies, texts, files[i], EVENT_VERSION_FILE_BYTES_MAX, arena);
    if (json_object_size(texts)) json_object_set(versions, "dependencies", texts);
    struct str out = STR_EMPTY;
    if (json_object_size(versions)) {
        size_t len;
        char *text = json_canonical(versions, &len);
        out = arena_str(arena, str_of(text, len));
        mem_free(text);
    }
    json_decref(texts);
    json_decref(versions);
    return out;
}
