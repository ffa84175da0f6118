// Messages from a broker: whatever comes, what is taken is bounded and can be written and read
// again as the same.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "server/bus/bus_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_same(const struct report *a, const struct report *b)
{
    assert(a->type == b->type && a->source == b->source && a->epoch == b->epoch && a->sequence == b->sequence);
    assert(a->count == b->count && a->observed_at_ms == b->observed_at_ms);
    assert(memcmp(a->content_hash, b->content_hash, ID_SHA256_BYTES) == 0);
    assert(str_eq(a->account_id, b->account_id) && str_eq(a->runtime, b->runtime) && str_eq(a->ref.name, b->ref.name));
    assert(str_eq(a->manifest, b->manifest) && str_eq(a->errors, b->errors));
    assert(report_text_bytes(a) == report_text_bytes(b));
}

static void check_again(const struct bus_message *message)
{
    struct bus_message_writer writer;
    struct strbuf bytes;
    struct bus_message again;
    bus_message_begin(&writer, &message->reports[0], message->received_at_ms);
    for (size_t i = 0; i < message->count; i++)
        if (bus_message_add(&writer, &message->reports[i], NULL) != ERROR_NONE) {
            bus_message_abandon(&writer); // unpacked it is larger than a message may be
            return;
        }
    bus_message_end(&writer, &bytes);
    assert(bus_message_open(&again, bytes.at, bytes.len, NULL) == ERROR_NONE);
    assert(again.count == message->count && again.received_at_ms == message->received_at_ms);
    for (size_t i = 0; i < again.count; i++)
        check_same(&message->reports[i], &again.reports[i]);
    bus_message_close(&again);
    strbuf_finish(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct bus_message message;
    struct error err = {0};
    enum error_code code = bus_message_open(&message, at, len, &err);
    assert(code == ERROR_NONE || ((code == ERROR_INVALID || code == ERROR_TOO_LARGE) && err.text[0] != '\0'));
    if (code != ERROR_NONE) return 0;
    assert(message.count > 0 && message.count <= BUS_MESSAGE_COUNT_MAX);
    check_again(&message);
    bus_message_close(&message);
    return 0;
}
