#include "base/deployment_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/parse.h"

enum { NEW_KEY_BYTES = 32 };

struct secret {
    uint8_t bytes[DEPLOYMENT_KEY_BYTES_MAX + 1];
    size_t len;
};

struct deployment_key {
    struct secret secrets[2]; // current, previous
    unsigned count;
};

// ---- files ---------------------------------------------------------------------------------------------------------

static enum error_code check_mode(const char *file, int fd, struct error *err)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_set(err, ERROR_INVALID, "deployment key %s: %s", file, strerror(errno));
    if (!S_ISREG(stat.st_mode)) return error_set(err, ERROR_INVALID, "deployment key %s: is not a regular file", file);
    unsigned mode = (unsigned)stat.st_mode & 0777;
    if (mode & (S_IRWXO | S_IWGRP))
        return error_set(err, ERROR_INVALID,
                         "deployment key %s: mode %04o lets other users read or write it; must be 0600", file, mode);
    return ERROR_NONE;
}

static enum error_code read_all(const char *file, int fd, struct secret *out, struct error *err)
{
    ssize_t got;
    do {
        got = read(fd, out->bytes + out->len, sizeof out->bytes - out->len);
        if (got > 0) out->len += (size_t)got;
    } while ((got > 0 && out->len < sizeof out->bytes) || (got < 0 && errno == EINTR));
    if (got < 0) return error_set(err, ERROR_INVALID, "deployment key %s: %s", file, strerror(errno));
    if (out->len <= DEPLOYMENT_KEY_BYTES_MAX && out->len && out->bytes[out->len - 1] == '\n') out->len--;
    return ERROR_NONE;
}

static enum error_code check_content(const char *file, const struct secret *secret, struct error *err)
{
    bool seen[256] = {false};
    unsigned distinct = 0;
    for (size_t i = 0; i < secret->len; i++) {
        if (!seen[secret->bytes[i]]) distinct++;
        seen[secret->bytes[i]] = true;
    }
    if (secret->len < DEPLOYMENT_KEY_BYTES_MIN || secret->len > DEPLOYMENT_KEY_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "deployment key %s: has %zu bytes%s; must have %d to %d random bytes",
                         file, secret->len, secret->len > DEPLOYMENT_KEY_BYTES_MAX ? " or more" : "",
                         DEPLOYMENT_KEY_BYTES_MIN, DEPLOYMENT_KEY_BYTES_MAX);
    if (distinct < DEPLOYMENT_KEY_DISTINCT_MIN)
        return error_set(err, ERROR_INVALID, "deployment key %s: not random: only %u different bytes", file, distinct);
    return ERROR_NONE;
}

static enum error_code load_file(const char *file, struct secret *out, struct error *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(err, ERROR_INVALID, "deployment key %s: %s", file, strerror(errno));
    enum error_code code = check_mode(file, fd, err);
    if (code == ERROR_NONE) code = read_all(file, fd, out, err);
    if (code == ERROR_NONE) code = check_content(file, out, err);
    close(fd);
    return code;
}

enum error_code deployment_key_load(const char *file, const char *previous_file, struct deployment_key **out,
                                    struct error *err)
{
    struct deployment_key *key = mem_zalloc(sizeof *key);
    enum error_code code = load_file(file, &key->secrets[0], err);
    key->count = 1;
    if (code == ERROR_NONE && previous_file && *previous_file) {
        code = load_file(previous_file, &key->secrets[1], err);
        key->count = 2;
    }
    if (code != ERROR_NONE) {
        deployment_key_destroy(key);
        return code;
    }
    *out = key;
    return ERROR_NONE;
}

void deployment_key_destroy(struct deployment_key *key)
{
    if (key) mem_free_secret(key, sizeof *key);
}

enum error_code deployment_key_create_file(const char *file, struct error *err)
{
    uint8_t bytes[NEW_KEY_BYTES];
    char text[2 * NEW_KEY_BYTES + 2];
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set(err, errno == EEXIST ? ERROR_CONFLICT : ERROR_INVALID, "deployment key %s: %s", file,
                         strerror(errno));
    id_random(bytes, sizeof bytes);
    format_hex(bytes, sizeof bytes, text);
    text[sizeof text - 2] = '\n';
    // A umask may have taken more away than it should.
    bool written =
        fchmod(fd, 0600) == 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && fsync(fd) == 0;
    int why = errno;
    OPENSSL_cleanse(bytes, sizeof bytes);
    OPENSSL_cleanse(text, sizeof text);
    close(fd);
    if (written) return ERROR_NONE;
    unlink(file);
    return error_set(err, ERROR_INTERNAL, "deployment key %s: cannot be written: %s", file, strerror(why));
}

// ---- derivation ----------------------------------------------------------------------------------------------------

static void hkdf(const struct secret *secret, const char *purpose, uint8_t out[PURPOSE_KEY_BYTES])
{
    static char digest[] = "SHA256", salt[] = "culvert deployment key v1";
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    // OpenSSL's parameters point at what they only read.
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret->bytes, secret->len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)purpose, strlen(purpose)),
        OSSL_PARAM_construct_end(),
    };
    if (!context || EVP_KDF_derive(context, out, PURPOSE_KEY_BYTES, params) != 1) abort();
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
}

void deployment_key_derive(const struct deployment_key *key, const char *purpose, struct purpose_key *out)
{
    *out = (struct purpose_key){.count = key->count};
    for (unsigned i = 0; i < key->count; i++)
        hkdf(&key->secrets[i], purpose, out->bytes[i]);
}
