// Replays files (or folders of files) through a fuzz target: the corpus as a regression test without libFuzzer.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    enum { BYTES_MAX = 16 * 1024 * 1024 };
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
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        char child[4096];
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        failed |= replay_path(child, count);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_path(argv[i], &count);
    printf("%zu inputs replayed\n", count);
    return failed || count == 0;
}
