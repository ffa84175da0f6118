#include "agent/tunnel/runtime_token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "base/token.h"

static bool write_new(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool is_written = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
    int reason = errno;
    close(fd);
    if (!is_written) unlink(path);
    errno = reason;
    return is_written;
}

static bool sync_folder(const char *path)
{
    AUTO_FREE char *copy = mem_strndup(path, strlen(path));
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    int reason = errno;
    if (fd >= 0) close(fd);
    errno = reason;
    return is_synced;
}

enum error_code runtime_token_file_make(const char *path, struct error *err)
{
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    if (access(path, F_OK) == 0) return ERROR_NONE;
    token_generate(&token, text);
    // By its id no other agent writes the same one; the link is refused where another agent was
    // faster.
    AUTO_FREE char *fresh = mem_printf("%s.%s", path, token.id);
    bool is_made = write_new(fresh, text, strlen(text)) && (link(fresh, path) == 0 || errno == EEXIST);
    int reason = errno;
    unlink(fresh);
    if (is_made && !sync_folder(path)) {
        is_made = false;
        reason = errno;
    }
    explicit_bzero(text, sizeof text);
    if (!is_made) return error_set(err, ERROR_IO, "runtime.token_file: %s: cannot be made: %s", path, strerror(reason));
    log_info("tunnel", "runtime_token_made", log_c("path", path));
    return ERROR_NONE;
}
