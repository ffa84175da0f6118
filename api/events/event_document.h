// event_document: JSON inside JSON, as the reporters of events wrap it: an object, a string that
// holds JSON, or a string that holds the base64 of JSON. Pure; any thread.
#ifndef CULVERT_API_EVENTS_EVENT_DOCUMENT_H
#define CULVERT_API_EVENTS_EVENT_DOCUMENT_H

#include <stdint.h>

#include "base/json/json.h"
#include "storage/manifests/manifest_blob.h"

// What gets in here gets into storage.
enum {
    EVENT_DOCUMENT_BYTES_MAX = MANIFEST_BYTES_MAX,
    EVENT_DOCUMENT_DEPTH_MAX = MANIFEST_DEPTH_MAX,
    EVENT_DOCUMENT_TOKENS_MAX = MANIFEST_TOKENS_MAX,
};

// The JSON object in text; the caller owns *out. `place` opens every error. Errors never repeat a
// part of the text: it can be of a Secret.
MUST_CHECK enum error_code event_document_decode(struct str text, const char *place, json_t **out, struct error *err);
// The JSON object that value is or holds; a new reference in *out. NULL, null and "" are
// ERROR_INVALID "missing".
MUST_CHECK enum error_code event_document_unwrap(json_t *value, const char *place, json_t **out, struct error *err);

// The same in two steps, for who wants the text: JSON, as far as it goes before it is decoded.
struct event_text {
    struct str json;
    uint8_t *owned; // when it was base64
    size_t owned_bytes;
};
MUST_CHECK enum error_code event_text_open(const json_t *value, const char *place, struct event_text *out,
                                           struct error *err);
void event_text_close(struct event_text *text); // also after an error

// The text of object's member, cut to bytes_max at the edge of a character; empty when it is
// missing or no string.
struct str event_document_text(const json_t *object, const char *member, size_t bytes_max);

#endif
