#include "base/failure_sketch.h"

#include <pthread.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"

// 256 KiB. With a million names that fail once each within a minute, a cell counts 60 of them, and four of a name's
// cells that all do are needed for it to count as many.
enum { ROWS = 4, CELLS = 16384, SECRET_BYTES = 32, NAME_BYTES_MAX = 256 };

static const double minute_ms = 60000;

struct cell {
    float level;    // as of at_ms
    uint32_t at_ms; // the lower half of the time; what is older than 49 days has leaked away long since
};

struct failure_sketch {
    pthread_mutex_t mutex;
    double per_minute;
    uint8_t secret[SECRET_BYTES];
    struct cell cells[ROWS][CELLS];
};

struct failure_sketch *failure_sketch_create(unsigned per_minute)
{
    struct failure_sketch *sketch = mem_zalloc(sizeof *sketch);
    sketch->per_minute = per_minute;
    id_random(sketch->secret, sizeof sketch->secret);
    pthread_mutex_init(&sketch->mutex, NULL);
    return sketch;
}

void failure_sketch_destroy(struct failure_sketch *sketch)
{
    if (!sketch) return;
    pthread_mutex_destroy(&sketch->mutex);
    mem_free_secret(sketch, sizeof *sketch);
}

static void find_cells(struct failure_sketch *sketch, struct str name, struct cell *out[ROWS])
{
    uint8_t text[SECRET_BYTES + NAME_BYTES_MAX], digest[ID_SHA256_BYTES];
    name = str_first(name, NAME_BYTES_MAX);
    memcpy(text, sketch->secret, SECRET_BYTES);
    if (name.len) memcpy(text + SECRET_BYTES, name.at, name.len);
    id_sha256(text, SECRET_BYTES + name.len, digest);
    for (size_t row = 0; row < ROWS; row++) {
        uint32_t number;
        memcpy(&number, digest + row * sizeof number, sizeof number);
        out[row] = &sketch->cells[row][number % CELLS];
    }
}

// What is left in the cell, which is brought to now.
static double leak(const struct failure_sketch *sketch, struct cell *cell, uint64_t now_ms)
{
    double passed_ms = (uint32_t)now_ms - cell->at_ms;
    double level = (double)cell->level - passed_ms * sketch->per_minute / minute_ms;
    cell->level = level > 0 ? (float)level : 0;
    cell->at_ms = (uint32_t)now_ms;
    return (double)cell->level;
}

static double lowest(const struct failure_sketch *sketch, struct cell *const cells[ROWS], uint64_t now_ms)
{
    double low = leak(sketch, cells[0], now_ms);
    for (size_t row = 1; row < ROWS; row++) {
        double level = leak(sketch, cells[row], now_ms);
        if (level < low) low = level;
    }
    return low;
}

void failure_sketch_add(struct failure_sketch *sketch, struct str name, uint64_t now_ms)
{
    struct cell *cells[ROWS];
    find_cells(sketch, name, cells);
    pthread_mutex_lock(&sketch->mutex);
    double level = lowest(sketch, cells, now_ms) + 1;
    // Twice the burst is remembered at most: who goes on is kept out, who stops gets back in.
    if (level > 2 * sketch->per_minute) level = 2 * sketch->per_minute;
    for (size_t row = 0; row < ROWS; row++)
        if ((double)cells[row]->level < level) cells[row]->level = (float)level;
    pthread_mutex_unlock(&sketch->mutex);
}

unsigned failure_sketch_wait_s(struct failure_sketch *sketch, struct str name, uint64_t now_ms)
{
    struct cell *cells[ROWS];
    find_cells(sketch, name, cells);
    pthread_mutex_lock(&sketch->mutex);
    double over = lowest(sketch, cells, now_ms) + 1 - sketch->per_minute;
    pthread_mutex_unlock(&sketch->mutex);
    if (over <= 0) return 0;
    return 1 + (unsigned)(over * 60 / sketch->per_minute);
}
