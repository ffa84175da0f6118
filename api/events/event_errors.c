#include "api/events/event_errors.h"

#include "api/events/event_document.h"
#include "api/events/event_manifest.h"
#include "base/mem.h"

enum { MEMBER_BYTES_MAX = 512 };

// Without the credentials in it.
static void copy_message(const json_t *from, json_t *to, struct arena *arena)
{
    struct str text = event_document_text(from, "message", EVENT_ERRORS_MESSAGE_BYTES_MAX);
    if (text.len) json_object_set_new(to, "message", json_new_str(event_manifest_scrub(text, arena)));
}

static void copy_text(const json_t *from, json_t *to, const char *key, size_t bytes_max)
{
    struct str text = event_document_text(from, key, bytes_max);
    if (text.len) json_object_set_new(to, key, json_new_str(text));
}

static json_t *one_error(const json_t *from, struct arena *arena)
{
    static const char *const members[] = {"type", "level", "lastSeen"};
    static const char *const reference_members[] = {"group", "version", "kind", "namespace", "name"};
    json_t *to = json_object();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        copy_text(from, to, members[i], MEMBER_BYTES_MAX);
    copy_message(from, to, arena);
    const json_t *reference = json_get_object(from, "sourceReference");
    if (!reference) return to;
    json_t *copy = json_object();
    for (size_t i = 0; i < sizeof reference_members / sizeof reference_members[0]; i++)
        copy_text(reference, copy, reference_members[i], MEMBER_BYTES_MAX);
    json_object_set_new(to, "sourceReference", copy);
    return to;
}

struct str event_errors_text(const json_t *payload, struct arena *arena)
{
    json_t *list = json_array();
    size_t i;
    json_t *each;
    json_array_foreach(json_get_array(payload, "errors"), i, each)
    {
        if (json_array_size(list) == EVENT_ERRORS_COUNT_MAX) break;
        if (json_is_object(each)) json_array_append_new(list, one_error(each, arena));
    }
    struct str out = STR_EMPTY;
    while (json_array_size(list) && !out.len) {
        size_t len;
        char *text = json_canonical(list, &len);
        if (len <= EVENT_ERRORS_BYTES_MAX)
            out = arena_str(arena, str_of(text, len));
        else
            json_array_remove(list, json_array_size(list) - 1);
        mem_free(text);
    }
    json_decref(list);
    return out;
}
