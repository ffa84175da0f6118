#include "api/http/negotiation.h"

// One item of an Accept field: its name, and its quality in thousandths.
struct item {
    struct str name;
    unsigned quality;
};

static unsigned quality_of(struct str text)
{
    if (text.len == 0 || text.len > 5 || (text.at[0] != '0' && text.at[0] != '1')) return 0;
    unsigned quality = text.at[0] == '1' ? 1000 : 0, place = 100;
    for (size_t i = 2; i < text.len; i++, place /= 10) {
        if (text.at[1] != '.' || text.at[i] < '0' || text.at[i] > '9') return 0;
        quality += (unsigned)(text.at[i] - '0') * place;
    }
    return quality > 1000 ? 1000 : quality;
}

// False: there are no more.
static bool next_item(struct str *rest, struct item *out)
{
    struct str item, parameter;
    do {
        if (rest->len == 0) return false;
        str_cut(rest, ',', &item);
        item = str_trim(item);
    } while (item.len == 0);
    bool more = str_cut(&item, ';', &parameter);
    out->name = str_trim(parameter);
    out->quality = 1000;
    while (more) {
        more = str_cut(&item, ';', &parameter);
        parameter = str_trim(parameter);
        if (str_starts_nocase(parameter, STR("q="))) out->quality = quality_of(str_from(parameter, 2));
    }
    return true;
}

enum graphql_media negotiate_media(struct str accept)
{
    unsigned response = 0, json = 0, any = 0, events = 0;
    for (struct item item; next_item(&accept, &item);) {
        if (str_eq_nocase(item.name, STR("application/graphql-response+json")))
            response = item.quality;
        else if (str_eq_nocase(item.name, STR("application/json")))
            json = item.quality;
        else if (str_eq_nocase(item.name, STR("text/event-stream")))
            events = item.quality;
        else if (str_eq(item.name, STR("*/*")) || str_eq_nocase(item.name, STR("application/*")))
            any = item.quality;
    }
    if (events && events >= response && events >= json && events >= any) return GRAPHQL_MEDIA_EVENTS;
    if (response && response >= json) return GRAPHQL_MEDIA_RESPONSE;
    return json && !response && !any ? GRAPHQL_MEDIA_JSON_ONLY : GRAPHQL_MEDIA_JSON;
}

enum content_coding negotiate_coding(struct str accept_encoding)
{
    unsigned gzip = 0, zstd = 0;
    for (struct item item; next_item(&accept_encoding, &item);) {
        if (str_eq_nocase(item.name, STR("gzip")) || str_eq_nocase(item.name, STR("x-gzip")))
            gzip = item.quality;
        else if (str_eq_nocase(item.name, STR("zstd")))
            zstd = item.quality;
    }
    if (zstd && zstd >= gzip) return CODING_ZSTD;
    return gzip ? CODING_GZIP : CODING_IDENTITY;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum error_code query_unescape(struct str text, struct str name, bool is_form, struct arena *arena, struct str *out,
                               struct error *err)
{
    char *at = arena_alloc(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int byte = is_form && text.at[i] == '+' ? ' ' : (unsigned char)text.at[i];
        if (byte == '%') {
            int high = text.len - i > 2 ? digit_of(text.at[i + 1]) : -1;
            int low = text.len - i > 2 ? digit_of(text.at[i + 2]) : -1;
            byte = high < 0 || low < 0 ? -1 : high * 16 + low;
            i += 2;
        }
        if (byte <= 0)
            return error_set(err, ERROR_INVALID,
                             "The query parameter \"%.*s\" has an invalid percent escape; %%00 is not accepted.",
                             STR_ARG(name));
        at[len++] = (char)byte;
    }
    *out = str_of(at, len);
    return ERROR_NONE;
}

enum error_code query_field(struct str query, struct str name, struct arena *arena, struct str *out, struct error *err)
{
    bool found = false;
    while (query.len) {
        struct str value, key;
        str_cut(&query, '&', &value);
        str_cut(&value, '=', &key);
        if (!str_eq(key, name)) continue;
        if (found) return error_set(err, ERROR_INVALID, "The query parameter \"%.*s\" is there twice.", STR_ARG(name));
        found = true;
        enum error_code code = query_unescape(value, name, true, arena, out, err);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}
