#include "pattern.h"

#include <string.h>

void pattern_init(struct pattern *pattern)
{
    uint64_t state = 1;
    for (size_t i = 0; i < PATTERN_PERIOD_BYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
        pattern->bytes[i] = (unsigned char)(state >> 56);
    }
    memcpy(pattern->bytes + PATTERN_PERIOD_BYTES, pattern->bytes, PATTERN_PIECE_BYTES_MAX);
}

const void *pattern_at(const struct pattern *pattern, uint64_t offset)
{
    return pattern->bytes + offset % PATTERN_PERIOD_BYTES;
}

bool pattern_matches(const struct pattern *pattern, uint64_t offset, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t piece = bytes - done < PATTERN_PIECE_BYTES_MAX ? bytes - done : PATTERN_PIECE_BYTES_MAX;
        if (memcmp(pattern_at(pattern, offset + done), (const char *)data + done, piece) != 0) return false;
        done += piece;
    }
    return true;
}
