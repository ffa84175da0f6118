#include "tunnel/session/header_block.h"

#include <string.h>

#include "base/mem.h"

size_t header_block_bytes(const struct http_header *headers, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += headers[i].name.len + headers[i].value.len;
    return bytes;
}

static struct str block_put(char **text, struct str from)
{
    struct str copy = str_of(*text, from.len);
    if (from.len) memcpy(*text, from.at, from.len);
    *text += from.len;
    return copy;
}

struct header_block header_block_copy(const struct http_header *headers, size_t count)
{
    size_t bytes = count * sizeof(*headers) + header_block_bytes(headers, count);
    struct header_block block = {.at = mem_alloc(bytes ? bytes : 1), .count = count};
    char *text = (char *)(block.at + count);
    for (size_t i = 0; i < count; i++) {
        block.at[i].name = block_put(&text, headers[i].name);
        block.at[i].value = block_put(&text, headers[i].value);
    }
    return block;
}

void header_block_finish(struct header_block *block)
{
    mem_free(block->at);
    *block = (struct header_block){0};
}
