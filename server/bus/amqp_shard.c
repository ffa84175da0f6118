#include "server/bus/amqp_shard.h"

#include "base/mem.h"

enum { SUSPECT_FROM = 2 };

// ---- deliveries ----------------------------------------------------------------------------------------------------

static uint64_t integer_of(const amqp_field_value_t *value)
{
    switch (value->kind) {
    case AMQP_FIELD_KIND_I64: return value->value.i64 > 0 ? (uint64_t)value->value.i64 : 0;
    case AMQP_FIELD_KIND_U64: return value->value.u64;
    case AMQP_FIELD_KIND_I32: return value->value.i32 > 0 ? (uint64_t)value->value.i32 : 0;
    case AMQP_FIELD_KIND_U32: return value->value.u32;
    case AMQP_FIELD_KIND_I16: return value->value.i16 > 0 ? (uint64_t)value->value.i16 : 0;
    case AMQP_FIELD_KIND_U16: return value->value.u16;
    case AMQP_FIELD_KIND_I8: return value->value.i8 > 0 ? (uint64_t)value->value.i8 : 0;
    case AMQP_FIELD_KIND_U8: return value->value.u8;
    default: return 0;
    }
}

static const amqp_field_value_t *header_of(const amqp_basic_properties_t *properties, struct str name)
{
    if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG)) return NULL;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (str_eq(str_of(entry->key.bytes, entry->key.len), name)) return &entry->value;
    }
    return NULL;
}

static uint64_t returns_of(const amqp_basic_properties_t *properties)
{
    const amqp_field_value_t *value = header_of(properties, STR("x-delivery-count"));
    return value ? integer_of(value) : 0;
}

static void take_signature(const amqp_basic_properties_t *properties, char out[BUS_SIGNATURE_TEXT_BYTES])
{
    const amqp_field_value_t *value = header_of(properties, STR(BUS_SIGNATURE_HEADER));
    if (!value) return;
    bool is_text = value->kind == AMQP_FIELD_KIND_UTF8 && value->value.bytes.len == BUS_SIGNATURE_TEXT_BYTES - 1;
    // Of another form it is a wrong one, not a missing one.
    if (is_text)
        memcpy(out, value->value.bytes.bytes, BUS_SIGNATURE_TEXT_BYTES - 1);
    else
        out[0] = '?';
}

struct amqp_delivery *amqp_delivery_create(const amqp_message_t *message)
{
    struct amqp_delivery *delivery = mem_alloc(sizeof *delivery + message->body.len);
    *delivery = (struct amqp_delivery){.returns = returns_of(&message->properties), .len = message->body.len};
    take_signature(&message->properties, delivery->signature);
    if (message->body.len) memcpy(delivery->body, message->body.bytes, message->body.len);
    return delivery;
}

// Came back so often that it may be what ended the replicas that had it.
static bool is_suspect(const struct amqp_delivery *delivery)
{
    return delivery->returns >= SUSPECT_FROM;
}

// ---- the shard -----------------------------------------------------------------------------------------------------

void amqp_shard_init(struct amqp_shard *shard)
{
    *shard = (struct amqp_shard){.last = &shard->first};
}

void amqp_shard_add(struct amqp_shard *shard, struct amqp_delivery *delivery)
{
    delivery->is_head = !shard->has_seen;
    shard->has_seen = true;
    *shard->last = delivery;
    shard->last = &delivery->next;
    if (!shard->waits) shard->waits = delivery;
}

// In their order. A suspect goes when it is the only one at work, so that what it ends affects no
// other message: then whatever stands at the head of a queue and came back too often is the cause
// itself, and not its neighbour.
struct amqp_delivery *amqp_shard_hand_over(struct amqp_shard *shard)
{
    struct amqp_delivery *delivery = shard->waits;
    if (!delivery) return NULL;
    bool is_alone = delivery == shard->first;
    if (!is_alone && (is_suspect(delivery) || is_suspect(shard->first))) return NULL;
    shard->waits = delivery->next;
    delivery->state = AMQP_DELIVERY_WITH_A_LOOP;
    return delivery;
}

struct amqp_delivery *amqp_shard_pop(struct amqp_shard *shard)
{
    struct amqp_delivery *delivery = shard->first;
    shard->first = delivery->next;
    if (!shard->first) shard->last = &shard->first;
    return delivery;
}

bool amqp_shard_has_done(const struct amqp_shard *shard)
{
    return shard->first && shard->first->state >= AMQP_DELIVERY_APPLIED;
}

bool amqp_shard_is_at_work(const struct amqp_shard *shard)
{
    return shard->first && shard->first->state != AMQP_DELIVERY_WAITS;
}

struct amqp_delivery *amqp_shard_forget(struct amqp_shard *shard)
{
    shard->waits = NULL;
    shard->has_seen = false;
    return shard->first ? amqp_shard_pop(shard) : NULL;
}
