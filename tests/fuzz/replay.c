// Replays files (or folders of files) through a fuzz target: the corpus as a regression test
// without libFuzzer.
// --mutate N: and N changed copies of them, the same ones every time (CULVERT_TEST_SEED gives others).
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

enum { BYTES_MAX = 16 * 1024 * 1024, SEEDS_MAX = 4096, SEED_BYTES_MAX = 16 * 1024, CHANGES_MAX = 6 };

struct seed {
    uint8_t *at;
    size_t len;
};

static struct seed seeds[SEEDS_MAX];
static size_t seed_count;

// ---- the corpus ------------------------------------------------------------------------------------------------

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *buffer = malloc(BYTES_MAX);
    if (!buffer) abort();
    size_t len = fread(buffer, 1, BYTES_MAX, file);
    fclose(file);
    // A copy of the exact size, so that a sanitizer sees a read past its end.
    uint8_t *exact = malloc(len ? len : 1);
    if (!exact) abort();
    memcpy(exact, buffer, len);
    free(buffer);
    LLVMFuzzerTestOneInput(exact, len);
    if (len <= SEED_BYTES_MAX && seed_count < SEEDS_MAX)
        seeds[seed_count++] = (struct seed){exact, len};
    else
        free(exact);
    return 0;
}

static int replay_path(const char *path, size_t *count)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(info.st_mode)) {
        (*count)++;
        return replay_file(path);
    }
    struct dirent **entries = NULL;
    int failed = 0;
    int n = scandir(path, &entries, NULL, alphasort); // in one order everywhere, for the changed copies' sake
    for (int i = 0; i < n; i++) {
        char child[4096];
        snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') failed |= replay_path(child, count);
        free(entries[i]);
    }
    free(entries);
    return failed || n < 0;
}

// ---- changed copies --------------------------------------------------------------------------------------------

static uint64_t state = 20261121;

static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

static uint8_t some_byte(void)
{
    static const char liked[] = "\r\n\t \0:;,./%\\\"=-+0159afAFxX\x7f\xff\x0b@[]?&#";
    return below(3) ? (uint8_t)liked[below(sizeof liked - 1)] : (uint8_t)below(256);
}

// One change; at has room for SEED_BYTES_MAX more than it holds.
static size_t change(uint8_t *at, size_t len)
{
    size_t place = below(len + 1), span = 1 + below(below(2) ? 4 : 32), from;
    switch (below(6)) {
    case 0: // another byte
        if (place < len) at[place] = some_byte();
        return len;
    case 1: // one bit
        if (place < len) at[place] ^= (uint8_t)(1u << below(8));
        return len;
    case 2: // a byte more
        memmove(at + place + 1, at + place, len - place);
        at[place] = some_byte();
        return len + 1;
    case 3: // less
        if (span > len - place) span = len - place;
        memmove(at + place, at + place + span, len - place - span);
        return len - span;
    case 4: // a piece of itself again
        from = below(len + 1);
        if (span > len - from) span = len - from;
        memmove(at + place + span, at + place, len - place);
        memmove(at + place, at + (from >= place ? from + span : from), span);
        return len + span;
    default: // the end of another
        if (seed_count) {
            const struct seed *other = &seeds[below(seed_count)];
            from = below(other->len + 1);
            size_t take = other->len - from;
            memcpy(at + place, other->at + from, take);
            return place + take;
        }
        return len;
    }
}

static void replay_changed(size_t count)
{
    for (size_t i = 0; i < count && seed_count; i++) {
        const struct seed *seed = &seeds[below(seed_count)];
        static uint8_t room[4 * SEED_BYTES_MAX];
        size_t len = seed->len;
        if (len) memcpy(room, seed->at, len);
        for (size_t changes = 1 + below(CHANGES_MAX); changes > 0 && len < 2 * SEED_BYTES_MAX; changes--)
            len = change(room, len);
        uint8_t *exact = malloc(len ? len : 1);
        if (!exact) abort();
        memcpy(exact, room, len);
        LLVMFuzzerTestOneInput(exact, len);
        free(exact);
    }
}

int main(int argc, char **argv)
{
    size_t count = 0, changed = 0;
    int failed = 0;
    const char *chosen = getenv("CULVERT_TEST_SEED");
    if (chosen && *chosen) state = strtoull(chosen, NULL, 10) | 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc)
            changed = (size_t)strtoull(argv[++i], NULL, 10);
        else
            failed |= replay_path(argv[i], &count);
    }
    printf("%zu inputs, and %zu changed ones with CULVERT_TEST_SEED=%llu\n", count, changed, (unsigned long long)state);
    replay_changed(changed);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].at);
    return failed || count == 0;
}
