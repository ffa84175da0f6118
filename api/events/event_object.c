#include "api/events/event_object.h"

#include "api/events/event_document.h"
#include "api/events/event_manifest.h"
#include "base/strbuf.h"

enum { PARTS = 4 };

// Those that are there, as an object of their own: it is a piece of valid JSON, so that this cannot
// fail.
static enum error_code read_parts(const struct json_canonical_part *parts, size_t count, size_t bytes_max,
                                  const char *place, json_t **out, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, bytes_max);
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].value.len) continue;
        strbuf_addf(&text, "%s\"%.*s\":", text.len ? "," : "{", STR_ARG(parts[i].key));
        strbuf_add_str(&text, parts[i].value);
    }
    strbuf_add_c(&text, text.len ? "}" : "{}");
    enum error_code code = event_document_decode(strbuf_str(&text), place, out, err);
    strbuf_finish(&text);
    return code;
}

static enum error_code read_text(struct str text, const char *place, bool with_status, struct arena *arena,
                                 struct event_object *out, struct error *err)
{
    struct json_canonical_part parts[PARTS] = {
        {.key = STR("apiVersion")}, {.key = STR("kind")}, {.key = STR("metadata")}, {.key = STR("status")}};
    size_t count = with_status ? PARTS : PARTS - 1;
    if (!event_manifest_is_canonical(text, parts, count)) return event_document_decode(text, place, &out->json, err);
    out->text = arena_str(arena, text);
    return read_parts(parts, count, text.len + 1, place, &out->json, err);
}

enum error_code event_object_read(json_t *value, const char *place, bool with_status, struct arena *arena,
                                  struct event_object *out, struct error *err)
{
    *out = (struct event_object){0};
    if (json_is_object(value)) {
        out->json = json_incref(value);
        return ERROR_NONE;
    }
    struct event_text text;
    enum error_code code = event_text_open(value, place, &text, err);
    if (code == ERROR_NONE) code = read_text(text.json, place, with_status, arena, out, err);
    event_text_close(&text);
    return code;
}

void event_object_finish(struct event_object *object)
{
    json_decref(object->json);
    object->json = NULL;
}
