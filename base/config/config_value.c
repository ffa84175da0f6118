#include "base/config/config_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"

enum { VALUE_BYTES_MAX = 16 * 1024 };

bool config_value_is_text(enum config_type type)
{
    return type == CONFIG_STRING || type == CONFIG_PATH || type == CONFIG_ADDRESS || type == CONFIG_CHOICE;
}

void config_value_format_number(enum config_type type, int64_t number, char *out, size_t cap)
{
    static const struct {
        enum config_type type;
        int64_t factor;
        const char *unit;
    } units[] = {
        {CONFIG_BYTES, 1024 * 1024 * 1024, "GiB"},
        {CONFIG_BYTES, 1024 * 1024, "MiB"},
        {CONFIG_BYTES, 1024, "KiB"},
        {CONFIG_DURATION, 86400000, "d"},
        {CONFIG_DURATION, 3600000, "h"},
        {CONFIG_DURATION, 60000, "m"},
        {CONFIG_DURATION, 1000, "s"},
        {CONFIG_DURATION, 1, "ms"},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bool fits = units[i].type == type && number % units[i].factor == 0;
        if (!fits || (number == 0 && type == CONFIG_BYTES)) continue;
        if (number == 0 && units[i].factor > 1) continue;
        snprintf(out, cap, "%lld%s", (long long)(number / units[i].factor), units[i].unit);
        return;
    }
    snprintf(out, cap, "%lld", (long long)number);
}

static bool is_choice(const char *choices, struct str value)
{
    struct str rest = str_c(choices);
    struct str choice;
    bool more = true;
    while (more) {
        more = str_cut(&rest, '|', &choice);
        if (value.len > 0 && str_eq(choice, value)) return true;
    }
    return false;
}

static enum error_code check_text(const struct config_entry *entry, struct str text, struct error *err)
{
    struct str host;
    uint16_t port;
    if (!str_is_utf8(text)) return error_set(err, ERROR_INVALID, "must be UTF-8");
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return error_set(err, ERROR_INVALID, "contains a control character");
    if (!entry->def && text.len == 0) return error_set(err, ERROR_INVALID, "is required and must not be empty");
    if (entry->type == CONFIG_PATH && text.len > 0 && access(text.at, R_OK) != 0)
        return error_set(err, ERROR_INVALID, "%s cannot be read: %s", text.at, strerror(errno));
    if (entry->type == CONFIG_ADDRESS && text.len > 0) return parse_address(text, &host, &port, err);
    if (entry->type == CONFIG_CHOICE && !is_choice(entry->choices, text))
        return error_set(err, ERROR_INVALID, "\"%.*s\" is not one of %s", STR_ARG(str_first(text, 80)), entry->choices);
    return ERROR_NONE;
}

static enum error_code parse_number(const struct config_entry *entry, struct str text, int64_t *out, struct error *err)
{
    uint64_t number = 0;
    int64_t value = 0;
    enum error_code code;
    if (entry->type == CONFIG_INT) {
        code = parse_i64(text, INT64_MIN, INT64_MAX, &value, err);
    } else {
        code = entry->type == CONFIG_BYTES ? parse_bytes(text, &number, err) : parse_duration_ms(text, &number, err);
        value = (int64_t)number;
    }
    if (code != ERROR_NONE) return code;
    if ((entry->min != 0 || entry->max != 0) && (value < entry->min || value > entry->max)) {
        char min[32], max[32];
        config_value_format_number(entry->type, entry->min, min, sizeof min);
        config_value_format_number(entry->type, entry->max, max, sizeof max);
        return error_set(err, ERROR_INVALID, "%.*s is not between %s and %s", STR_ARG(str_first(text, 40)), min, max);
    }
    *out = value;
    return ERROR_NONE;
}

enum error_code config_value_set(const struct config_entry *entry, struct str text, void *values, struct error *err)
{
    enum error_code code;
    if (text.len > VALUE_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "is longer than %d bytes", VALUE_BYTES_MAX);
    if (config_value_is_text(entry->type)) {
        code = check_text(entry, text, err);
        if (code != ERROR_NONE) return code;
        char *copy = mem_strndup(text.at, text.len);
        memcpy((char *)values + entry->offset, &copy, sizeof copy);
        return ERROR_NONE;
    }
    if (entry->type == CONFIG_BOOL) {
        bool flag = false;
        code = parse_bool(text, &flag, err);
        if (code == ERROR_NONE) memcpy((char *)values + entry->offset, &flag, sizeof flag);
        return code;
    }
    int64_t number = 0;
    code = parse_number(entry, text, &number, err);
    if (code == ERROR_NONE) memcpy((char *)values + entry->offset, &number, sizeof number);
    return code;
}

const char *config_value_text(const struct config_entry *entry, const void *values)
{
    const char *text;
    memcpy(&text, (const char *)values + entry->offset, sizeof text);
    return text ? text : "";
}

void config_value_print(const struct config_entry *entry, const void *values, struct strbuf *out)
{
    const char *at = (const char *)values + entry->offset;
    if (config_value_is_text(entry->type)) {
        strbuf_add_c(out, config_value_text(entry, values));
    } else if (entry->type == CONFIG_BOOL) {
        bool flag;
        memcpy(&flag, at, sizeof flag);
        strbuf_add_c(out, flag ? "true" : "false");
    } else {
        int64_t number;
        char text[CONFIG_NUMBER_BYTES];
        memcpy(&number, at, sizeof number);
        config_value_format_number(entry->type, number, text, sizeof text);
        strbuf_add_c(out, text);
    }
}

void config_value_release(const struct config_entry *entry, void *values)
{
    char *text;
    if (!config_value_is_text(entry->type)) return;
    memcpy(&text, (char *)values + entry->offset, sizeof text);
    if (text) mem_free_secret(text, strlen(text));
    text = NULL;
    memcpy((char *)values + entry->offset, &text, sizeof text);
}
