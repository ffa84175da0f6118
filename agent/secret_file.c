#include "agent/secret_file.h"

#include <stdio.h>

enum error_code secret_file_read(const char *path, char *buffer, size_t cap, struct str *out, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file) return error_set(err, ERROR_NOT_FOUND, "%s: %m", path);
    setvbuf(file, NULL, _IONBF, 0);
    size_t len = fread(buffer, 1, cap, file);
    bool more = len == cap && fgetc(file) != EOF;
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return error_set(err, ERROR_NOT_FOUND, "%s: cannot be read", path);
    if (more) return error_set(err, ERROR_TOO_LARGE, "%s: more than %zu bytes", path, cap);
    struct str text = str_of(buffer, len);
    while (text.len && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    while (text.len && strchr(" \t\r\n", text.at[0]))
        text = str_from(text, 1);
    *out = text;
    return ERROR_NONE;
}
