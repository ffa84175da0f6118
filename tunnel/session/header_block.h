// header_block: header fields that own their texts, in one block of memory: for what outlives the callback it came in.
// A value; its owner frees it.
#ifndef CULVERT_TUNNEL_SESSION_HEADER_BLOCK_H
#define CULVERT_TUNNEL_SESSION_HEADER_BLOCK_H

#include "tunnel/broker.h"

struct header_block {
    struct http_header *at; // and the texts behind them; NULL: there is none
    size_t count;
};

struct header_block header_block_copy(const struct http_header *headers, size_t count);
void header_block_finish(struct header_block *block); // zeroed is fine, and is left
// Names and values, without what the block itself costs.
size_t header_block_bytes(const struct http_header *headers, size_t count);

#endif
