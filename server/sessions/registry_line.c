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

struct str registry_line_key(struct str account_id, struct str runtime, char *out)
{
    return made(out,
                snprintf(out, REGISTRY_LINE_BYTES, "culvert:tunnel:%.*s:%.*s", STR_ARG(account_id), STR_ARG(runtime)));
}

struct str registry_line_place(const struct registry_place *place, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "%" PRIu64 " %s %s", place->epoch, place->replica,
                              place->address[0] ? place->address : "-"));
}

struct str registry_line_open(struct str account_id, struct str runtime, const struct registry_place *place, char *out)
{
    return made(out,
                snprintf(out, REGISTRY_LINE_BYTES, "open %.*s %.*s %" PRIu64 " %s %s", STR_ARG(account_id),
                         STR_ARG(runtime), place->epoch, place->replica, place->address[0] ? place->address : "-"));
}

struct str registry_line_over(struct str account_id, struct str runtime, uint64_t epoch, char *out)
{
    return made(out, snprintf(out, REGISTRY_LINE_BYTES, "over %.*s %.*s %" PRIu64, STR_ARG(account_id),
                              STR_ARG(runtime), epoch));
}
