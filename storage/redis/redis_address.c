#include "storage/redis/redis_address.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"

enum { PASSWORD_BYTES_MAX = 1024, DATABASE_MAX = 1023, PORT_DEFAULT = 6379 };

static enum error_code parse_database(struct str text, unsigned *out, struct error *err)
{
    uint64_t number = 0;
    if (text.len && parse_u64(text, 0, DATABASE_MAX, &number, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "Redis: the database in redis.url must be a number from 0 to %d",
                         DATABASE_MAX);
    *out = (unsigned)number;
    return ERROR_NONE;
}

static enum error_code decode_password(struct str text, char **out, struct error *err)
{
    if (text.len > PASSWORD_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "Redis: the user or password is too long");
    char *plain = mem_zalloc(text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.at[i];
        if (text.at[i] == '%') {
            if (parse_hex(str_first(str_from(text, i + 1), 2), &byte, 1, NULL) != ERROR_NONE || byte == 0) {
                mem_free_secret(plain, text.len + 1);
                return error_set(err, ERROR_INVALID,
                                 "Redis: the user or password in redis.url has an invalid %% sequence");
            }
            i += 2;
        }
        plain[len++] = (char)byte;
    }
    *out = plain;
    return ERROR_NONE;
}

static enum error_code read_password_file(const char *path, char **out, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file) return error_set(err, ERROR_IO, "Redis: the password file %s cannot be read", path);
    char *text = mem_zalloc(PASSWORD_BYTES_MAX + 2);
    size_t len = fread(text, 1, PASSWORD_BYTES_MAX + 1, file);
    fclose(file);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    if (len == 0 || len > PASSWORD_BYTES_MAX || memchr(text, 0, len)) {
        mem_free_secret(text, PASSWORD_BYTES_MAX + 2);
        return error_set(err, ERROR_INVALID, "Redis: the password file %s must contain a password of at most %d bytes",
                         path, PASSWORD_BYTES_MAX);
    }
    *out = text;
    return ERROR_NONE;
}

static enum error_code parse_unix(struct redis_address *a, struct str rest, struct error *err)
{
    struct str path;
    bool has_query = str_cut(&rest, '?', &path);
    if (!str_starts(path, STR("/")) || path.len > 100)
        return error_set(err, ERROR_INVALID, "Redis: unix:// requires an absolute path of at most 100 bytes");
    if (has_query && !str_starts(rest, STR("db=")))
        return error_set(err, ERROR_INVALID, "Redis: unix:// accepts ?db= only");
    a->path = mem_strndup(path.at, path.len);
    return has_query ? parse_database(str_from(rest, 3), &a->database, err) : ERROR_NONE;
}

static enum error_code parse_tcp(struct redis_address *a, struct str rest, struct error *err)
{
    struct str authority, host, credential = STR_EMPTY;
    str_cut(&rest, '/', &authority);
    struct str behind = authority;
    // The last @ ends the credential: a password may have one when it is not encoded.
    for (struct str head; str_has_byte(behind, '@');) {
        if (!str_cut(&behind, '@', &head)) break;
        credential = str_first(authority, (size_t)(behind.at - authority.at) - 1);
    }
    enum error_code code = ERROR_NONE;
    if (credential.len) {
        struct str user, password = credential;
        bool has_password = str_cut(&password, ':', &user);
        if (user.len) code = decode_password(user, &a->user, err);
        if (code == ERROR_NONE && has_password) code = decode_password(password, &a->password, err);
    }
    if (code != ERROR_NONE) return code;
    AUTO_FREE char *text = NULL;
    bool has_port = behind.len && behind.at[behind.len - 1] != ']' && str_has_byte(behind, ':');
    text = has_port ? mem_strndup(behind.at, behind.len) : mem_printf("%.*s:%d", STR_ARG(behind), PORT_DEFAULT);
    if (parse_address(str_c(text), &host, &a->port, NULL) != ERROR_NONE || !host.len || !a->port)
        return error_set(err, ERROR_INVALID, "Redis: redis.url has no host:port");
    a->host = mem_strndup(host.at, host.len);
    return parse_database(rest, &a->database, err);
}

static enum error_code check(const struct redis_address *a, bool allow_plaintext, struct error *err)
{
    if (a->user && !a->password)
        return error_set(err, ERROR_INVALID, "Redis: redis.url has a user and no password; set redis.password_file");
    if (!a->host || a->tls || allow_plaintext || parse_is_loopback(str_c(a->host))) return ERROR_NONE;
    return error_set(
        err, ERROR_INVALID,
        "Redis: redis:// to %s sends the password in plain text; use rediss://, or set redis.allow_plaintext", a->host);
}

enum error_code redis_address_init(struct redis_address *out, const char *url, const char *password_file,
                                   bool allow_plaintext, struct error *err)
{
    struct redis_address a = {0};
    struct str text = str_c(url);
    enum error_code code;
    if (str_starts(text, STR("unix://")))
        code = parse_unix(&a, str_from(text, 7), err);
    else if (str_starts(text, STR("redis://")))
        code = parse_tcp(&a, str_from(text, 8), err);
    else if ((a.tls = str_starts(text, STR("rediss://"))))
        code = parse_tcp(&a, str_from(text, 9), err);
    else
        code = error_set(err, ERROR_INVALID, "Redis: redis.url must begin with rediss://, redis:// or unix://");
    if (code == ERROR_NONE && password_file && *password_file) {
        char *password = NULL;
        code = read_password_file(password_file, &password, err);
        if (code == ERROR_NONE) {
            if (a.password) mem_free_secret(a.password, strlen(a.password));
            a.password = password;
        }
    }
    if (code == ERROR_NONE) code = check(&a, allow_plaintext, err);
    if (code != ERROR_NONE) {
        redis_address_finish(&a);
        return code;
    }
    *out = a;
    return ERROR_NONE;
}

void redis_address_finish(struct redis_address *address)
{
    mem_free(address->path);
    mem_free(address->host);
    if (address->user) mem_free_secret(address->user, strlen(address->user));
    if (address->password) mem_free_secret(address->password, strlen(address->password));
    *address = (struct redis_address){0};
}
