// Any bytes as an event of an event source: what is taken has its attributes, is bounded JSON, and
// reads the same again.
#include <stdint.h>
#include <stdlib.h>

#include "modules/events/cloud_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct arena *arena = arena_create(0);
    struct cloud_event event, again;
    struct error err = {0};
    enum error_code code = cloud_event_parse(str_of((const char *)at, len), arena, &event, &err);
    if (code == ERROR_NONE) {
        check(event.id.len && event.source.len && event.type.len);
        check(event.id.len <= CLOUD_EVENT_ATTRIBUTE_BYTES_MAX && event.subject.len <= CLOUD_EVENT_ATTRIBUTE_BYTES_MAX);
        check(cloud_event_parse(event.json, arena, &again, &err) == ERROR_NONE);
        check(str_eq(again.json, event.json) && str_eq(again.id, event.id));
    } else {
        check(err.code == code && err.text[0]);
    }
    arena_destroy(arena);
    return 0;
}
