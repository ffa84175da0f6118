#include "tests/sim/ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

enum { EPOCHS_MAX = 512, SEQUENCES_MAX = 16384, TEXT_BYTES = 512 };

static struct {
    uint8_t *committed[EPOCHS_MAX]; // a bit a sequence
    bool is_broken;
    uint64_t seed;
    char text[TEXT_BYTES];
} ledger;

void ledger_begin(uint64_t seed)
{
    ledger.seed = seed;
    ledger.is_broken = false;
}

void ledger_end(void)
{
    for (size_t i = 0; i < EPOCHS_MAX; i++) {
        mem_free(ledger.committed[i]);
        ledger.committed[i] = NULL;
    }
}

void ledger_violation(const char *format, ...)
{
    if (ledger.is_broken) return;
    ledger.is_broken = true;
    va_list args;
    va_start(args, format);
    int len = snprintf(ledger.text, sizeof ledger.text, "at %llu ms: ", (unsigned long long)clock_mono_ms());
    vsnprintf(ledger.text + len, sizeof ledger.text - (size_t)len, format, args);
    va_end(args);
}

const char *ledger_broken(void)
{
    return ledger.is_broken ? ledger.text : NULL;
}

static void check_bounds(uint64_t epoch, uint64_t sequence)
{
    if (epoch < EPOCHS_MAX && sequence < SEQUENCES_MAX) return;
    fprintf(stderr, "sim: seed %llu: more epochs or sequences than the ledger holds\n",
            (unsigned long long)ledger.seed);
    abort();
}

void ledger_commit(uint64_t epoch, uint64_t sequence)
{
    check_bounds(epoch, sequence);
    uint8_t **bits = &ledger.committed[epoch];
    if (!*bits) *bits = mem_zalloc(SEQUENCES_MAX / 8);
    (*bits)[sequence / 8] |= (uint8_t)(1u << sequence % 8);
}

bool ledger_is_committed(uint64_t epoch, uint64_t sequence)
{
    check_bounds(epoch, sequence);
    const uint8_t *bits = ledger.committed[epoch];
    return bits && (bits[sequence / 8] >> sequence % 8 & 1);
}
