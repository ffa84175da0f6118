// hash: FNV-1a (64 bits) over texts, for tables in memory. Nothing that leaves the process may rest on it. Where peers
// choose the texts it begins with a random number in place of HASH_BEGIN, else they could fill one bucket.
#ifndef CULVERT_BASE_HASH_H
#define CULVERT_BASE_HASH_H

#include <stdint.h>

#include "base/str.h"

#define HASH_BEGIN UINT64_C(14695981039346656037)

static inline uint64_t hash_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * UINT64_C(1099511628211);
}

static inline uint64_t hash_text(uint64_t hash, struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = hash_byte(hash, (uint8_t)text.at[i]);
    return hash;
}

// One of several texts, with an end that is in none of them: "ab", "c" are not "a", "bc".
static inline uint64_t hash_part(uint64_t hash, struct str text)
{
    return hash_byte(hash_text(hash, text), 0xff);
}

// Afterwards any bits of it will do (the last steps of splitmix64).
static inline uint64_t hash_end(uint64_t hash)
{
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

#endif
