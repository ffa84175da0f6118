#include "api/live/change.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"

struct changes {
    atomic_uint references;
    struct str account_id;
    size_t count;
    struct change items[]; // and behind them their texts
};

enum { TEXTS = 6 };

static void texts_of(struct change *change, struct str *out[TEXTS])
{
    struct str *const all[TEXTS] = {&change->ref.group, &change->ref.version, &change->ref.kind,
                                    &change->runtime,   &change->ref.ns,      &change->ref.name};
    memcpy(out, all, sizeof all);
}

static struct str copy_text(struct str text, char **to)
{
    struct str copy = {*to, text.len};
    if (text.len) memcpy(*to, text.at, text.len);
    *to += text.len;
    return copy;
}

struct changes *changes_create(struct str account_id, const struct change *items, size_t count)
{
    assert(count > 0 && count <= CHANGES_MAX);
    size_t bytes = account_id.len;
    struct str *texts[TEXTS];
    for (size_t i = 0; i < count; i++) {
        struct change change = items[i];
        texts_of(&change, texts);
        for (size_t k = 0; k < TEXTS; k++)
            bytes += texts[k]->len;
    }
    struct changes *changes = mem_alloc(sizeof *changes + count * sizeof *items + bytes);
    char *to = (char *)&changes->items[count];
    atomic_init(&changes->references, 1);
    changes->count = count;
    changes->account_id = copy_text(account_id, &to);
    for (size_t i = 0; i < count; i++) {
        changes->items[i] = items[i];
        texts_of(&changes->items[i], texts);
        for (size_t k = 0; k < TEXTS; k++)
            *texts[k] = copy_text(*texts[k], &to);
    }
    return changes;
}

struct changes *changes_ref(struct changes *changes)
{
    atomic_fetch_add_explicit(&changes->references, 1, memory_order_relaxed);
    return changes;
}

void changes_unref(struct changes *changes)
{
    if (changes && atomic_fetch_sub_explicit(&changes->references, 1, memory_order_acq_rel) == 1) mem_free(changes);
}

struct str changes_account(const struct changes *changes)
{
    return changes->account_id;
}

const struct change *changes_items(const struct changes *changes, size_t *out_count)
{
    *out_count = changes->count;
    return changes->items;
}

// ---- as a message -------------------------------------------------------------------------------

static const char *const names[TEXTS] = {"group", "version", "kind", "runtime", "namespace", "name"};

bool changes_write(const struct changes *changes, const char *origin, struct strbuf *out)
{
    strbuf_add_c(out, "{\"from\":");
    strbuf_add_json(out, str_c(origin));
    strbuf_add_c(out, ",\"changes\":[");
    for (size_t i = 0; i < changes->count; i++) {
        struct change change = changes->items[i];
        struct str *texts[TEXTS];
        texts_of(&change, texts);
        strbuf_add_c(out, i ? ",{" : "{");
        for (size_t k = 0; k < TEXTS; k++) {
            strbuf_addf(out, "\"%s\":", names[k]);
            strbuf_add_json(out, *texts[k]);
            strbuf_add_byte(out, ',');
        }
        strbuf_addf(out, "\"event\":\"%s\"}", change.is_deleted ? "DELETED" : "UPDATED");
    }
    strbuf_add_c(out, "]}");
    return !out->overflow;
}

static enum error_code read_items(struct str account_id, const json_t *list, struct changes **out, struct error *err)
{
    size_t count = json_array_size(list), i;
    if (count == 0 || count > CHANGES_MAX)
        return error_set(err, ERROR_INVALID, "a message of %zu changes, accepted are 1 to %d", count, CHANGES_MAX);
    struct change *items = mem_array(count, sizeof *items);
    bool is_good = true;
    for (i = 0; i < count && is_good; i++) {
        const json_t *item = json_array_get(list, i);
        struct str *texts[TEXTS];
        texts_of(&items[i], texts);
        for (size_t k = 0; k < TEXTS; k++) {
            is_good = is_good && json_is_string(json_object_get(item, names[k]));
            *texts[k] = json_get_str(item, names[k]);
        }
        items[i].is_deleted = str_eq(json_get_str(item, "event"), STR("DELETED"));
    }
    if (is_good) *out = changes_create(account_id, items, count);
    mem_free(items);
    return is_good ? ERROR_NONE : error_set(err, ERROR_INVALID, "change %zu lacks a text", i);
}

enum error_code changes_parse(struct str account_id, struct str message, char origin[CHANGE_ORIGIN_BYTES],
                              struct changes **out, struct error *err)
{
    const struct json_limits limits = {
        .bytes_max = CHANGES_MESSAGE_BYTES_MAX, .depth_max = 4, .tokens_max = CHANGES_MAX * 2 * (TEXTS + 2) + 16};
    json_t *value;
    if (json_decode(message, &limits, &value, err) != ERROR_NONE) return err->code;
    struct str from = str_first(json_get_str(value, "from"), CHANGE_ORIGIN_BYTES - 1);
    snprintf(origin, CHANGE_ORIGIN_BYTES, "%.*s", STR_ARG(from));
    enum error_code code = read_items(account_id, json_get_array(value, "changes"), out, err);
    json_decref(value);
    return code;
}
