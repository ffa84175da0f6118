// Lines about tunnels from Redis: what is taken is written again as it was.
#include <stdlib.h>

#include "server/sessions/registry_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_of((const char *)data, size);
    char out[REGISTRY_LINE_BYTES];
    struct registry_place place;
    struct registry_line line, same;
    if (registry_line_parse_place(text, &place)) {
        struct registry_place again;
        if (!registry_line_parse_place(registry_line_place(&place, out), &again) || again.epoch != place.epoch) abort();
    }
    if (registry_line_parse(text, &line)) {
        struct str written =
            line.kind == REGISTRY_LINE_OPEN
                ? registry_line_open(&(struct runtime_key){line.account_id, line.runtime}, &line.place, out)
                : registry_line_over(&(struct runtime_key){line.account_id, line.runtime}, line.place.epoch, out);
        if (!registry_line_parse(written, &same) || same.place.epoch != line.place.epoch) abort();
    }
    // Neither is it believed: the key is not in the corpus.
    const struct purpose_key key = {.bytes = {{42}}, .count = 1};
    if (registry_line_verify(&key, STR("culvert:2:tunnels"), text, 0, &text)) abort();
    return 0;
}
