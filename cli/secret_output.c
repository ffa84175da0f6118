#include "cli/secret_output.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum error_code secret_output_check(const char *path, struct error *err)
{
    if (!path || access(path, F_OK) != 0) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "--token-file %s: there is a file already", path);
}

enum error_code secret_output_give(const char *path, const char *token, struct error *err)
{
    if (!token) return error_set(err, ERROR_PROTOCOL, "the platform's answer has no token");
    if (!path) {
        printf("%s\n", token);
        return ERROR_NONE;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t len = strlen(token);
    bool is_written = fd >= 0 && write(fd, token, len) == (ssize_t)len && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    if (is_written) return ERROR_NONE;
    printf("%s\n", token); // it is shown once: better here than nowhere
    return error_set(err, ERROR_INTERNAL, "%s could not be written (it must not exist); the token is on stdout", path);
}
