// bytes: big-endian numbers, written to a strbuf and read from memory whose length the caller has
// checked. Pure; any thread.
#ifndef CULVERT_TUNNEL_WIRE_BYTES_H
#define CULVERT_TUNNEL_WIRE_BYTES_H

#include <stdint.h>

#include "base/strbuf.h"

static inline void bytes_put(struct strbuf *out, uint64_t value, unsigned count)
{
    uint8_t text[8];
    for (unsigned i = 0; i < count; i++)
        text[i] = (uint8_t)(value >> (8 * (count - 1 - i)));
    (void)strbuf_add(out, text, count); // overflow is checked once, at the end of a message
}

static inline void bytes_put_u8(struct strbuf *out, uint8_t value)
{
    bytes_put(out, value, 1);
}
static inline void bytes_put_u16(struct strbuf *out, uint16_t value)
{
    bytes_put(out, value, 2);
}
static inline void bytes_put_u32(struct strbuf *out, uint32_t value)
{
    bytes_put(out, value, 4);
}
static inline void bytes_put_u64(struct strbuf *out, uint64_t value)
{
    bytes_put(out, value, 8);
}

static inline uint64_t bytes_get(const uint8_t *at, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value = value << 8 | at[i];
    return value;
}

static inline uint16_t bytes_get_u16(const uint8_t *at)
{
    return (uint16_t)bytes_get(at, 2);
}
static inline uint32_t bytes_get_u32(const uint8_t *at)
{
    return (uint32_t)bytes_get(at, 4);
}
static inline uint64_t bytes_get_u64(const uint8_t *at)
{
    return bytes_get(at, 8);
}

#endif
