#include "server/bus/amqp_address.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"

enum { TEXT_BYTES_MAX = 1024, PORT_PLAIN = 5672, PORT_TLS = 5671 };

static void free_secret(char *text)
{
    if (text) mem_free_secret(text, strlen(text));
}

// Takes the place of *out.
static enum error_code decode(struct str text, const char *what, char **out, struct error *err)
{
    if (text.len > TEXT_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "RabbitMQ: the %s is too long", what);
    char *plain = mem_zalloc(text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.at[i];
        bool bad = byte == 0;
        if (text.at[i] == '%') {
            bad = parse_hex(str_first(str_from(text, i + 1), 2), &byte, 1, NULL) != ERROR_NONE || byte == 0;
            i += 2;
        }
        if (bad) {
            mem_free_secret(plain, text.len + 1);
            return error_set(err, ERROR_INVALID, "RabbitMQ: the %s in rabbitmq.url has an invalid %% sequence or a NUL",
                             what);
        }
        plain[len++] = (char)byte;
    }
    free_secret(*out);
    *out = plain;
    return ERROR_NONE;
}

static enum error_code read_password_file(const char *path, char **out, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file) return error_set(err, ERROR_IO, "RabbitMQ: the password file %s cannot be read", path);
    char *text = mem_zalloc(TEXT_BYTES_MAX + 2);
    size_t len = fread(text, 1, TEXT_BYTES_MAX + 1, file);
    fclose(file);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    if (len == 0 || len > TEXT_BYTES_MAX || memchr(text, 0, len)) {
        mem_free_secret(text, TEXT_BYTES_MAX + 2);
        return error_set(err, ERROR_INVALID,
                         "RabbitMQ: the password file %s must contain a password of at most %d bytes", path,
                         TEXT_BYTES_MAX);
    }
    free_secret(*out);
    *out = text;
    return ERROR_NONE;
}

static enum error_code add_host(struct amqp_address *a, struct str text, struct error *err)
{
    struct str host;
    if (a->host_count == AMQP_ADDRESS_HOSTS_MAX)
        return error_set(err, ERROR_TOO_LARGE, "RabbitMQ: more than %d hosts in rabbitmq.url", AMQP_ADDRESS_HOSTS_MAX);
    bool has_port = text.len && text.at[text.len - 1] != ']' && str_has_byte(text, ':');
    AUTO_FREE char *full = has_port ? mem_strndup(text.at, text.len)
                                    : mem_printf("%.*s:%d", STR_ARG(text), a->tls ? PORT_TLS : PORT_PLAIN);
    uint16_t port = 0;
    if (parse_address(str_c(full), &host, &port, NULL) != ERROR_NONE || !host.len || !port)
        return error_set(err, ERROR_INVALID, "RabbitMQ: every host in rabbitmq.url must be host:port");
    a->hosts[a->host_count].name = mem_strndup(host.at, host.len);
    a->hosts[a->host_count++].port = port;
    return ERROR_NONE;
}

static enum error_code parse(struct amqp_address *a, struct str rest, struct error *err)
{
    struct str authority, credential = STR_EMPTY, user, host;
    bool has_vhost = str_cut(&rest, '/', &authority);
    struct str hosts = authority;
    // The last @ ends the credential: a password may have one when it is not encoded.
    for (struct str head; str_has_byte(hosts, '@');) {
        if (!str_cut(&hosts, '@', &head)) break;
        credential = str_first(authority, (size_t)(hosts.at - authority.at) - 1);
    }
    enum error_code code = ERROR_NONE;
    if (credential.len) {
        bool has_password = str_cut(&credential, ':', &user);
        code = decode(user, "user", &a->user, err);
        if (code == ERROR_NONE && has_password) code = decode(credential, "password", &a->password, err);
    }
    if (code == ERROR_NONE && has_vhost && rest.len) code = decode(rest, "vhost", &a->vhost, err);
    bool more = true;
    while (code == ERROR_NONE && more) {
        more = str_cut(&hosts, ',', &host);
        code = add_host(a, host, err);
    }
    return code;
}

static enum error_code check(const struct amqp_address *a, bool allow_plaintext, struct error *err)
{
    if (!a->user || !*a->user || !a->password || !*a->password)
        return error_set(
            err, ERROR_INVALID,
            "RabbitMQ: rabbitmq.url requires a user and a password (or rabbitmq.password_file); there is no default");
    if (strcmp(a->user, "guest") == 0 && strcmp(a->password, "guest") == 0)
        return error_set(err, ERROR_INVALID,
                         "RabbitMQ: guest with the password guest is refused; create a user for culvertd");
    for (size_t i = 0; i < a->host_count && !a->tls && !allow_plaintext; i++)
        // Not by its name: where a password holds a slash that is not encoded, a part of it is
        // taken for a host.
        if (!parse_is_loopback(str_c(a->hosts[i].name)))
            return error_set(err, ERROR_INVALID,
                             "RabbitMQ: host %zu of rabbitmq.url is not a loopback address: amqp:// sends password and "
                             "reports in plain text; use amqps://, or set rabbitmq.allow_plaintext",
                             i + 1);
    return ERROR_NONE;
}

enum error_code amqp_address_init(struct amqp_address *out, const char *url, const char *password_file,
                                  bool allow_plaintext, struct error *err)
{
    struct str text = str_c(url);
    bool tls = str_starts(text, STR("amqps://"));
    if (!tls && !str_starts(text, STR("amqp://")))
        return error_set(err, ERROR_INVALID, "RabbitMQ: rabbitmq.url must begin with amqp:// or amqps://");
    struct amqp_address a = {.tls = tls, .vhost = mem_strdup("/")};
    enum error_code code = parse(&a, str_from(text, tls ? 8 : 7), err);
    if (code == ERROR_NONE && password_file && *password_file)
        code = read_password_file(password_file, &a.password, err);
    if (code == ERROR_NONE) code = check(&a, allow_plaintext, err);
    if (code != ERROR_NONE)
        amqp_address_finish(&a);
    else
        *out = a;
    return code;
}

void amqp_address_finish(struct amqp_address *address)
{
    for (size_t i = 0; i < address->host_count; i++)
        mem_free(address->hosts[i].name);
    free_secret(address->user);
    free_secret(address->password);
    mem_free(address->vhost);
    *address = (struct amqp_address){0};
}
