#include "server/sessions/registry_line.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"

enum { ACCOUNT_BYTES_MAX = 63, RUNTIME_BYTES_MAX = 127 };

// A word without control characters and spaces, and not longer than it may be.
static bool is_word(struct str word, size_t bytes_max)
{
    if (word.len == 0 || word.len > bytes_max) return false;
    for (size_t i = 0; i < word.len; i++)
        if ((uint8_t)word.at[i] <= ' ' || word.at[i] == 0x7f) return false;
    return true;
}

static bool take_epoch(struct str word, uint64_t *out)
{
    return parse_u64(word, 1, INT64_MAX, out, NULL) == ERROR_NONE;
}

bool registry_line_parse_place(struct str value, struct registry_place *out)
{
    struct str epoch, replica, address = value;
    struct registry_place place = {0};
    if (!str_cut(&address, ' ', &epoch) || !str_cut(&address, ' ', &replica)) return false;
    if (!take_epoch(epoch, &place.epoch) || !is_word(replica, sizeof place.replica - 1) ||
        !is_word(address, sizeof place.address - 1))
        return false;
    snprintf(place.replica, sizeof place.replica, "%.*s", STR_ARG(replica));
    if (!str_eq(address, STR("-"))) snprintf(place.address, sizeof place.address, "%.*s", STR_ARG(address));
    *out = place;
    return true;
}

bool registry_line_parse(struct str message, struct registry_line *out)
{
    struct str kind, rest = message;
    struct registry_line line = {0};
    if (!str_cut(&rest, ' ', &kind) || !str_cut(&rest, ' ', &line.account_id) || !str_cut(&rest, ' ', &line.runtime))
        return false;
    if (!is_word(line.account_id, ACCOUNT_BYTES_MAX) || !is_word(line.runtime, RUNTIME_BYTES_MAX)) return false;
    if (str_eq(kind, STR("open"))) {
        line.kind = REGISTRY_LINE_OPEN;
        if (!registry_line_parse_place(rest, &line.place)) return false;
    } else if (str_eq(kind, STR("over"))) {
        line.kind = REGISTRY_LINE_OVER;
        if (!take_epoch(rest, &line.place.epoch)) return false;
    } else {
        return false;
    }
    *out = line;
    return true;
}

static struct str made(const char *out, int len)
{
    return str_of(out, (size_t)len < REGISTRY_LINE_BYTES ? (size_t)len : REGISTRY_LINE_BYTES - 1);
}

struct str registry_line_key(const struct runtime_key *key, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "culvert:2:tunnel:%.*s:%.*s", STR_ARG(key->account_id),
                              STR_ARG(key->runtime)));
}

struct str registry_line_place(const struct registry_place *place, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "%" PRIu64 " %s %s", place->epoch, place->replica,
                              place->address[0] ? place->address : "-"));
}

struct str registry_line_open(const struct runtime_key *key, const struct registry_place *place, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "open %.*s %.*s %" PRIu64 " %s %s", STR_ARG(key->account_id),
                              STR_ARG(key->runtime), place->epoch, place->replica,
                              place->address[0] ? place->address : "-"));
}

struct str registry_line_over(const struct runtime_key *key, uint64_t epoch, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "over %.*s %.*s %" PRIu64, STR_ARG(key->account_id),
                              STR_ARG(key->runtime), epoch));
}

// ---- signatures ----------------------------------------------------------------------------------------------------

struct str registry_line_sign(const struct purpose_key *key, struct str place, struct str line, int64_t expires_at_ms,
                              char *out)
{
    char expires[24], hex[2 * PURPOSE_KEY_MAC_BYTES + 1];
    uint8_t mac[PURPOSE_KEY_MAC_BYTES];
    int len = snprintf(expires, sizeof expires, "%" PRId64, expires_at_ms);
    const struct str parts[] = {place, str_of(expires, (size_t)len), line};
    purpose_key_sign(key, parts, 3, mac);
    format_hex(mac, sizeof mac, hex);
    len = snprintf(out, REGISTRY_SIGNED_BYTES, "%.*s %s %s", STR_ARG(line), expires, hex);
    return str_of(out, (size_t)len < REGISTRY_SIGNED_BYTES ? (size_t)len : REGISTRY_SIGNED_BYTES - 1);
}

// The last word of *text, which loses it and the space before it.
static bool cut_last(struct str *text, struct str *out)
{
    for (size_t i = text->len; i > 0; i--) {
        if (text->at[i - 1] != ' ') continue;
        *out = str_from(*text, i);
        *text = str_first(*text, i - 1);
        return true;
    }
    return false;
}

bool registry_line_verify(const struct purpose_key *key, struct str place, struct str text, int64_t now_ms,
                          struct str *out_line)
{
    struct str hex, expires, line = text;
    uint8_t mac[PURPOSE_KEY_MAC_BYTES];
    int64_t expires_at_ms;
    if (text.len >= REGISTRY_SIGNED_BYTES || !cut_last(&line, &hex) || !cut_last(&line, &expires)) return false;
    if (hex.len != 2 * sizeof mac || parse_hex(hex, mac, sizeof mac, NULL) != ERROR_NONE) return false;
    const struct str parts[] = {place, expires, line};
    if (!purpose_key_verify(key, parts, 3, str_of((const char *)mac, sizeof mac))) return false;
    if (parse_i64(expires, 0, INT64_MAX, &expires_at_ms, NULL) != ERROR_NONE || now_ms > expires_at_ms) return false;
    *out_line = line;
    return true;
}
