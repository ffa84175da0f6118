// The splitter that cuts lists and watches: whatever comes, in whatever pieces, it gives the same
// objects. The first byte chooses the shape and the step.
#include <stdint.h>
#include <stdlib.h>

#include "agent/reports/json_splitter.h"
#include "base/id.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

struct seen {
    uint64_t bytes, count, sum;
};

static bool on_object(void *arg, struct str text)
{
    struct seen *seen = arg;
    seen->bytes += text.len;
    seen->count++;
    for (size_t i = 0; i < text.len; i++)
        seen->sum = seen->sum * 31 + (uint8_t)text.at[i];
    if (text.len < 2 || text.at[0] != '{') abort();
    return true;
}

static enum error_code run(enum json_splitter_shape shape, const char *at, size_t len, size_t step, struct seen *seen)
{
    struct json_splitter splitter;
    json_splitter_init(&splitter, shape, on_object, seen);
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; i < len && code == ERROR_NONE; i += step)
        code = json_splitter_feed(&splitter, at + i, len - i < step ? len - i : step, NULL);
    struct str envelope = json_splitter_envelope(&splitter);
    if (envelope.len > JSON_SPLITTER_ENVELOPE_BYTES_MAX) abort();
    json_splitter_finish(&splitter);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    if (len < 2) return 0;
    enum json_splitter_shape shape = at[0] & 1 ? JSON_SPLITTER_LIST : JSON_SPLITTER_SEQUENCE;
    size_t step = (size_t)(at[0] >> 1) + 1;
    struct seen whole = {0}, pieces = {0};
    enum error_code first = run(shape, (const char *)at + 1, len - 1, len, &whole);
    enum error_code second = run(shape, (const char *)at + 1, len - 1, step, &pieces);
    if (first != second || whole.bytes != pieces.bytes || whole.count != pieces.count || whole.sum != pieces.sum)
        abort();
    return 0;
}
