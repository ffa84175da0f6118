#include "agent/reports/redaction_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"

static enum error_code read_key(int fd, const char *path, uint8_t key[REDACTION_KEY_BYTES], struct error *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode) || (about.st_mode & 07))
        return error_set(err, ERROR_INVALID, "%s: must be a file that other users cannot read", path);
    ssize_t got;
    do
        got = read(fd, key, REDACTION_KEY_BYTES);
    while (got < 0 && errno == EINTR);
    if (got != REDACTION_KEY_BYTES || about.st_size != REDACTION_KEY_BYTES)
        return error_set(err, ERROR_INVALID, "%s: must contain a key of %d bytes", path, REDACTION_KEY_BYTES);
    return ERROR_NONE;
}

// Written whole under another name first, so that a crash leaves either no key or a good one.
static enum error_code make_key(const char *path, uint8_t key[REDACTION_KEY_BYTES], struct error *err)
{
    AUTO_FREE char *fresh = mem_printf("%s.%d", path, (int)getpid());
    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_set(err, ERROR_IO, "%s: %s", fresh, strerror(errno));
    id_random(key, REDACTION_KEY_BYTES);
    bool good = write(fd, key, REDACTION_KEY_BYTES) == REDACTION_KEY_BYTES && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    good = good && rename(fresh, path) == 0;
    if (good) return ERROR_NONE;
    int why = errno;
    unlink(fresh);
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(why));
}

enum error_code redaction_key_load(const char *folder, uint8_t out[REDACTION_KEY_BYTES], struct error *err)
{
    if (!folder || !*folder) {
        id_random(out, REDACTION_KEY_BYTES);
        return ERROR_NONE;
    }
    AUTO_FREE char *path = mem_printf("%s/redaction.key", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? make_key(path, out, err) : error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    enum error_code code = read_key(fd, path, out, err);
    close(fd);
    return code;
}
