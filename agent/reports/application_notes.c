#include "agent/reports/application_notes.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tunnel/wire/report.h"

json_t *application_notes_unread(const char *message, const char *suggestion)
{
    json_t *unread = json_object();
    json_object_set_new(unread, "message", json_new_str(str_c(message)));
    json_object_set_new(unread, "suggestion", json_new_str(str_c(suggestion)));
    return unread;
}

static void set_note(json_t *annotations, const char *name, const json_t *note)
{
    size_t len;
    if (!note) return;
    AUTO_FREE char *value = json_canonical(note, &len);
    json_object_set_new(annotations, name, json_new_str(str_of(value, len)));
}

void application_notes_add(struct strbuf *text, const json_t *commits, const json_t *unread)
{
    json_t *object;
    if ((!commits && !unread) || json_decode(strbuf_str(text), NULL, &object, NULL) != ERROR_NONE) return;
    json_t *metadata = json_get_object(object, "metadata"), *annotations = json_get_object(metadata, "annotations");
    if (!annotations) json_object_set_new(metadata, "annotations", annotations = json_object());
    set_note(annotations, WIRE_ANNOTATION_COMMITS, commits);
    set_note(annotations, WIRE_ANNOTATION_UNREAD, unread);
    size_t len;
    AUTO_FREE char *value = json_canonical(object, &len);
    if (len < text->max) {
        strbuf_clear(text);
        strbuf_add(text, value, len);
    }
    json_decref(object);
}
