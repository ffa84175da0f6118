#include "tunnel/wire/replay_window.h"

enum { WORD_BITS = 64, WORDS = REPLAY_WINDOW_NUMBERS / WORD_BITS };

// Numbers between the highest so far and the new one were not seen.
static void advance(struct replay_window *window, uint64_t number)
{
    uint64_t from = window->highest / WORD_BITS, to = number / WORD_BITS;
    if (to - from > WORDS) from = to - WORDS;
    for (uint64_t word = from + 1; word <= to; word++)
        window->seen[word % WORDS] = 0;
    window->highest = number;
}

bool replay_window_take(struct replay_window *window, uint64_t number)
{
    // The word that the highest is in is only partly ahead, so one word less is remembered than
    // there is room for.
    if (number == 0) return false;
    if (number <= window->highest && window->highest - number >= REPLAY_WINDOW_NUMBERS - WORD_BITS) return false;
    if (number > window->highest) advance(window, number);
    uint64_t *word = &window->seen[number / WORD_BITS % WORDS], bit = UINT64_C(1) << number % WORD_BITS;
    if (*word & bit) return false;
    *word |= bit;
    return true;
}
