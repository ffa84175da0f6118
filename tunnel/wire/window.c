#include "tunnel/wire/window.h"

#include <assert.h>

enum { SHRINK_ROUNDS = 4 };

void wire_window_init(struct wire_window *window, uint64_t now_us)
{
    *window = (struct wire_window){.bytes = WIRE_WINDOW_BYTES, .round_at_us = now_us};
}

// By how long the last round was.
static uint32_t window_wanted(struct wire_window *window, uint64_t now_us, uint64_t rtt_us)
{
    uint64_t took_us = now_us - window->round_at_us;
    uint64_t fast_us = 2 * rtt_us > WIRE_WINDOW_ROUND_US ? 2 * rtt_us : WIRE_WINDOW_ROUND_US;
    bool lagged = window->lagged;
    window->round_bytes = 0;
    window->round_at_us = now_us;
    window->lagged = false;
    if (window->bytes < WIRE_WINDOW_BYTES) return window->bytes * 2; // back to what every stream has
    if (took_us <= fast_us && !lagged && window->bytes < WIRE_WINDOW_BYTES_MAX) return window->bytes * 2;
    if (took_us > SHRINK_ROUNDS * fast_us && window->bytes > WIRE_WINDOW_BYTES) return window->bytes / 2;
    return window->bytes;
}

uint32_t wire_window_consumed(struct wire_window *window, size_t len, uint64_t now_us, uint64_t rtt_us,
                              uint64_t bytes_max)
{
    uint32_t wanted = window->bytes;
    window->owed_bytes += (int64_t)len;
    window->round_bytes += len;
    if (window->round_bytes >= window->bytes) wanted = window_wanted(window, now_us, rtt_us);
    if (wanted > bytes_max && wanted > window->bytes) wanted = window->bytes;
    while (wanted > bytes_max && wanted > WIRE_WINDOW_BYTES_MIN)
        wanted /= 2;
    window->owed_bytes += (int64_t)wanted - (int64_t)window->bytes;
    window->bytes = wanted;
    assert(wanted <= WIRE_WINDOW_BYTES_MAX);
    uint32_t step = wanted / 2 < WIRE_WINDOW_STEP_BYTES_MAX ? wanted / 2 : WIRE_WINDOW_STEP_BYTES_MAX;
    if (window->owed_bytes < (int64_t)step) return 0;
    assert(window->owed_bytes <= INT32_MAX); // what a WINDOW_UPDATE can carry
    uint32_t credit = (uint32_t)window->owed_bytes;
    window->owed_bytes = 0;
    return credit;
}

void wire_rtt_measured(struct wire_rtt *rtt, uint64_t sample_us, bool quiet)
{
    rtt->smooth_us = rtt->smooth_us ? (rtt->smooth_us * 7 + sample_us) / 8 : sample_us;
    if (!rtt->shortest_us || sample_us < rtt->shortest_us)
        rtt->shortest_us = sample_us;
    else if (quiet)
        rtt->shortest_us = (rtt->shortest_us * 7 + sample_us) / 8;
}
