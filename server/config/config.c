#include "server/config/config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/config/sections.h"

// In the order of the example file.
static const struct config_section *const sections[] = {
    &server_config_process,
    &server_config_doors,
    &server_config_tls,
    &server_config_security,
    &server_config_database,
    &server_config_redis,
    &server_config_api,
    &server_config_ui,
    &server_config_ingress,
    &server_config_tunnel,
    &server_config_authentication,
    &server_config_sessions,
    &server_config_runtime_tokens,
    &server_config_peer,
    &server_config_reports,
    &server_config_bus,
    &server_config_operations,
    &server_config_storage,
    &server_config_retention,
    &server_config_shutdown,
};

const struct config_table server_config_table = {
    .sections = sections,
    .section_count = sizeof sections / sizeof *sections,
    .program = "culvertd",
    .env_prefix = "CULVERT_",
};

enum error_code server_config_secret(const char *value, char **out, struct error *err)
{
    enum { SECRET_BYTES_MAX = 4096 };
    if (strncmp(value, "file:", 5) != 0) {
        *out = mem_strdup(value);
        return ERROR_NONE;
    }
    FILE *file = fopen(value + 5, "re");
    if (!file) return error_set(err, ERROR_INVALID, "%s: cannot be read: %m", value + 5);
    char text[SECRET_BYTES_MAX + 1];
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    while (len && len <= SECRET_BYTES_MAX && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    enum error_code code = ERROR_NONE;
    if (len && len <= SECRET_BYTES_MAX && memchr(text, '\0', len))
        code = error_set(err, ERROR_INVALID, "%s: contains a NUL byte", value + 5);
    else if (len == 0 || len > SECRET_BYTES_MAX)
        code = error_set(err, ERROR_INVALID, "%s: is empty or longer than %d bytes", value + 5, SECRET_BYTES_MAX);
    else
        *out = mem_strndup(text, len);
    explicit_bzero(text, sizeof text);
    return code;
}
