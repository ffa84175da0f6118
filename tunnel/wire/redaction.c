#include "tunnel/wire/redaction.h"

#include <string.h>

#include "base/id.h"
#include "base/json/json_text.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/parse.h"
#include "tunnel/wire/redaction_rules.h"

enum {
    DEPTH_MAX = 128,
    KEY_BYTES_MAX = 253,
    PATH_BYTES_MAX = 64 * 1024, // of DEPTH_MAX keys
    NAME_BYTES_MAX = 253,
    FRESH_BYTES_MAX = 6 * REDACTION_LONG_TEXT_BYTES_MAX + 64, // with every byte escaped
    DIGEST_JSON_BYTES = REDACTION_DIGEST_BYTES + 1,           // in quotes
};

static const char spent[] = "\"redacted\"";

struct redaction {
    uint8_t key[REDACTION_KEY_BYTES];
    struct redaction_rules *rules;
    struct metric *digested, *scrubbed; // NULL: not counted
};

// One object on its way through.
struct walk {
    const struct redaction *redaction;
    const struct redaction_observer *observer; // NULL: not requested
    const char *at, *end;
    const char *copied; // up to here the text is in out, as it is or replaced: the rest follows as it is
    struct strbuf *out;
    struct strbuf fresh; // what replaces a text
    struct strbuf label; // what is digested: the object, then the path, with names of elements in \001...\002
    size_t object_len;   // of label's part that is the object
    size_t growth_left;
    int depth;
    bool in_closed; // of which all is known to have room
    uint64_t counts[REDACTION_DROPPED + 1];
    const char *wrong; // what ended it
};

static bool fail(struct walk *w, const char *what)
{
    if (!w->wrong) w->wrong = what;
    return false;
}

// ---- the text ------------------------------------------------------------------------------------------------------

// Behind the string that begins at w->at with its quote; its bytes in *out, without quotes and as
// they stand.
static bool take_string(struct walk *w, struct str *out)
{
    unsigned char all = 0;
    const char *begin = w->at + 1, *at = begin;
    if (w->at == w->end || *w->at != '"') return fail(w, "a string is expected");
    for (;;) {
        at = json_text_plain_end(at, w->end, &all);
        if (at >= w->end || (unsigned char)*at < 0x20) return fail(w, "a string without an end");
        if (*at == '"') break;
        if (w->end - at < 2) return fail(w, "a string without an end");
        at += 2;
    }
    *out = str_of(begin, (size_t)(at - begin));
    w->at = at + 1;
    return true;
}

// Behind the scalar at w->at; as it stands in *out.
static bool take_scalar(struct walk *w, struct str *out)
{
    const char *begin = w->at;
    struct str inner;
    if (w->at == w->end) return fail(w, "a value is expected");
    if (*begin == '"') {
        if (!take_string(w, &inner)) return false;
    } else {
        while (w->at < w->end && !strchr(",]}", *w->at))
            w->at++;
        if (w->at == begin || !strchr("-0123456789tfn", *begin)) return fail(w, "a value is expected");
    }
    *out = str_of(begin, (size_t)(w->at - begin));
    return true;
}

static bool take(struct walk *w, char c)
{
    if (w->at == w->end || *w->at != c) return false;
    w->at++;
    return true;
}

// A key that names a field or an entry; whatever else stands there may be a value itself.
static bool is_plain_key(struct str key)
{
    if (!key.len || key.len > KEY_BYTES_MAX) return false;
    for (size_t i = 0; i < key.len; i++) {
        char c = key.at[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c != '\0' && strchr("._/:*$-", c));
        if (!good) return false;
    }
    if (key.len <= 16) return true;
    static const char *const tokens[] = {"AKIA", "ASIA", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "eyJ"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (str_starts(key, str_c(tokens[i]))) return false;
    return !memchr(key.at, ':', key.len) || !memmem(key.at, key.len, "://", 3);
}

// Passes over the object or array at w->at: how many values it has at most, and whether all its
// keys are plain ones.
static bool skip_container(struct walk *w, size_t *out_values, bool *out_plain)
{
    int depth = 0;
    struct str text;
    *out_values = 0;
    *out_plain = true;
    do {
        if (w->at == w->end) return fail(w, "an object or array without an end");
        char c = *w->at;
        if (c == '"') {
            if (!take_string(w, &text)) return false;
            if (w->at < w->end && *w->at == ':' && !is_plain_key(text)) *out_plain = false;
            continue;
        }
        if (c == '{' || c == '[') depth++, ++*out_values;
        if (c == '}' || c == ']') depth--;
        if (c == ',') ++*out_values;
        w->at++;
        if (depth > DEPTH_MAX) return fail(w, "nested too deep");
    } while (depth > 0);
    return true;
}

// Passes over any value.
static bool skip_value(struct walk *w)
{
    size_t values;
    bool is_plain;
    struct str text;
    if (w->at < w->end && (*w->at == '{' || *w->at == '[')) return skip_container(w, &values, &is_plain);
    return take_scalar(w, &text);
}

// ---- where we are --------------------------------------------------------------------------------------------------

static void enter_key(struct walk *w, struct str key)
{
    bool is_word = key.len > 0 && !memchr(key.at, '.', key.len) && !memchr(key.at, '[', key.len);
    char *to = strbuf_reserve(&w->label, key.len + 4);
    if (!to) return;
    char *begin = to;
    if (!is_word) {
        *to++ = '[';
        *to++ = '"';
    } else if (w->label.len > w->object_len) {
        *to++ = '.';
    }
    if (key.len) memcpy(to, key.at, key.len);
    to += key.len;
    if (!is_word) {
        *to++ = '"';
        *to++ = ']';
    }
    strbuf_commit(&w->label, (size_t)(to - begin));
}

static void leave(struct walk *w, size_t len)
{
    if (w->label.len > len) w->label.len = len;
}

// Elements of a list are distinguished by their names rather than by their places, so that one that
// comes first does not change the digests of all others.
static bool enter_element(struct walk *w)
{
    struct walk look = *w;
    struct str name = STR_EMPTY, key;
    look.at++;
    while (look.at < look.end && *look.at == '"') {
        if (!take_string(&look, &key) || !take(&look, ':')) return fail(w, "a member without a value");
        int order = str_compare(key, STR("name"));
        if (order > 0) break;
        bool is_name = order == 0 || str_eq(key, STR("key"));
        if (is_name && look.at < look.end && *look.at == '"') {
            if (!take_string(&look, &name)) return fail(w, look.wrong);
            if (order == 0) break;
        } else if (!skip_value(&look)) {
            return fail(w, look.wrong);
        }
        if (!take(&look, ',')) break;
    }
    if (!name.len || name.len > NAME_BYTES_MAX) return true;
    strbuf_add_byte(&w->label, '\001');
    strbuf_add_str(&w->label, name);
    strbuf_add_byte(&w->label, '\002');
    return true;
}

// What becomes of the value at w->label; json: as it leaves.
static void notify(struct walk *w, enum redaction_verdict verdict, struct str json)
{
    w->counts[verdict]++;
    if (!w->observer) return;
    struct strbuf path;
    strbuf_init(&path, PATH_BYTES_MAX);
    bool in_name = false;
    for (size_t i = w->object_len; i < w->label.len; i++) {
        char c = w->label.at[i];
        if (c == '\001') in_name = true;
        if (!in_name) strbuf_add_byte(&path, c);
        if (c == '\002') in_name = false;
    }
    w->observer->on_value(w->observer->arg, strbuf_str(&path), verdict, json);
    strbuf_finish(&path);
}

// What stands from `from` to `to` leaves as `by`; whatever is before it and was not replaced leaves
// as it is.
static void replace(struct walk *w, const char *from, const char *to, struct str by)
{
    if (from > w->copied) strbuf_add(w->out, w->copied, (size_t)(from - w->copied));
    if (by.len) strbuf_add_str(w->out, by);
    w->copied = to;
}

// ---- values --------------------------------------------------------------------------------------------------------

static void make_digest(struct walk *w, struct str raw, char out[DIGEST_JSON_BYTES + 1])
{
    size_t len = w->label.len;
    uint8_t mac[ID_SHA256_BYTES], sum[ID_SHA256_BYTES];
    // Of a long value its digest, so that it need not be copied.
    strbuf_add(&w->label, "\0", 1);
    if (raw.len > 4096) {
        id_sha256(raw.at, raw.len, sum);
        strbuf_add(&w->label, sum, sizeof sum);
    } else {
        strbuf_add_str(&w->label, raw);
    }
    id_hmac_sha256(str_of((const char *)w->redaction->key, REDACTION_KEY_BYTES), w->label.at, w->label.len, mac);
    w->label.len = len;
    memcpy(out, "\"hmac-sha256:", 13);
    format_hex(mac, 16, out + 13);
    out[DIGEST_JSON_BYTES - 1] = '"';
}

static void close_value(struct walk *w, struct str raw, enum redaction_verdict verdict)
{
    char digest[DIGEST_JSON_BYTES + 1];
    struct str by = str_of(digest, DIGEST_JSON_BYTES);
    bool is_longer = raw.len < DIGEST_JSON_BYTES;
    if (is_longer && w->growth_left < DIGEST_JSON_BYTES) {
        by = str_c(spent);
    } else {
        if (is_longer) w->growth_left -= DIGEST_JSON_BYTES;
        make_digest(w, raw, digest);
    }
    replace(w, raw.at, raw.at + raw.len, by);
    notify(w, verdict, by);
}

static bool walk_scalar(struct walk *w, const struct redaction_node *node)
{
    struct str raw;
    if (!take_scalar(w, &raw)) return false;
    // Nothing and an empty text are no secret.
    bool is_same = str_eq(raw, STR("null")) || str_eq(raw, STR("\"\""));
    strbuf_clear(&w->fresh);
    if (is_same || (node && redaction_value_write(node->type, raw, &w->fresh, &is_same))) {
        if (!is_same) replace(w, raw.at, raw.at + raw.len, strbuf_str(&w->fresh));
        notify(w, is_same ? REDACTION_LEAVES : REDACTION_SCRUBBED, is_same ? raw : strbuf_str(&w->fresh));
    } else {
        close_value(w, raw, REDACTION_DIGESTED);
    }
    return true;
}

static bool walk_value(struct walk *w, const struct redaction_node *node);

// Passes over a member that leaves no trace; `from` is its key, or the comma before it.
static bool drop_member(struct walk *w, const char *from, bool is_first)
{
    if (!skip_value(w)) return false;
    // Of the first one the comma behind it goes.
    const char *to = w->at + (is_first && w->at < w->end && *w->at == ',');
    replace(w, from, to, STR_EMPTY);
    notify(w, REDACTION_DROPPED, STR_EMPTY);
    return true;
}

static bool walk_object(struct walk *w, const struct redaction_node *node)
{
    w->at++;
    if (take(w, '}')) return true;
    const char *from = w->at;
    for (bool is_first = true;;) {
        struct str key;
        size_t len = w->label.len;
        if (!take_string(w, &key) || !take(w, ':')) return fail(w, "a member without a value");
        const struct redaction_node *child =
            node && node->type == REDACTION_OPEN ? node : redaction_node_child(node, key);
        // A member without a field's name is itself what may be secret.
        bool is_dropped = (child && child->type == REDACTION_DROP) || !is_plain_key(key);
        enter_key(w, key);
        if (is_dropped ? !drop_member(w, from, is_first) : !walk_value(w, child)) return false;
        is_first = is_first && is_dropped;
        leave(w, len);
        from = w->at; // the comma
        if (take(w, '}')) return true;
        if (!take(w, ',')) return fail(w, "a comma is expected");
        if (is_first) from = w->at;
    }
}

static bool walk_array(struct walk *w, const struct redaction_node *node)
{
    w->at++;
    if (take(w, ']')) return true;
    for (;;) {
        size_t len = w->label.len;
        if (w->at < w->end && *w->at == '{' && !enter_element(w)) return false;
        if (!walk_value(w, node)) return false;
        leave(w, len);
        if (take(w, ']')) return true;
        if (!take(w, ',')) return fail(w, "a comma is expected");
    }
}

// What is closed keeps its shape where its digests have room; else it is one digest.
static bool collapses(struct walk *w, bool must, bool *out_collapsed)
{
    struct walk look = *w;
    size_t values;
    bool is_plain;
    if (!skip_container(&look, &values, &is_plain)) return fail(w, look.wrong);
    *out_collapsed = must || !is_plain || values > w->growth_left / DIGEST_JSON_BYTES;
    if (*out_collapsed) {
        close_value(w, str_of(w->at, (size_t)(look.at - w->at)), REDACTION_COLLAPSED);
        w->at = look.at;
    }
    return true;
}

static bool walk_value(struct walk *w, const struct redaction_node *node)
{
    if (w->out->overflow) return fail(w, "too large");
    if (w->at == w->end) return fail(w, "a value is expected");
    if (*w->at != '{' && *w->at != '[') return walk_scalar(w, node);
    bool is_collapsed = false, was_in_closed = w->in_closed;
    // Scalars have types, lists of them too; an object where none belongs has no shape to keep.
    bool is_misplaced = node && node->type > REDACTION_OPEN && *w->at == '{';
    if (is_misplaced || (!w->in_closed && (!node || node->type == REDACTION_DEEP))) {
        if (!collapses(w, is_misplaced, &is_collapsed)) return false;
        w->in_closed = true;
    }
    bool good = true;
    if (!is_collapsed) {
        if (++w->depth > DEPTH_MAX) return fail(w, "nested too deep");
        good = *w->at == '{' ? walk_object(w, node) : walk_array(w, node);
        w->depth--;
    }
    w->in_closed = was_in_closed;
    return good;
}

// ---- the whole -----------------------------------------------------------------------------------------------------

static void count(const struct walk *w)
{
    const struct redaction *redaction = w->redaction;
    if (redaction->digested)
        metric_add(redaction->digested, w->counts[REDACTION_DIGESTED] + w->counts[REDACTION_COLLAPSED]);
    if (redaction->scrubbed) metric_add(redaction->scrubbed, w->counts[REDACTION_SCRUBBED]);
}

enum error_code redaction_explain(const struct redaction *redaction, const struct redaction_object *object,
                                  struct str json, const struct redaction_observer *observer, struct strbuf *out,
                                  struct error *err)
{
    if (!json.len || *json.at != '{') return error_set(err, ERROR_INVALID, "must be a JSON object");
    struct walk w = {.redaction = redaction,
                     .observer = observer,
                     .at = json.at,
                     .copied = json.at,
                     .end = json.at + json.len,
                     .out = out,
                     .growth_left = REDACTION_GROWTH_BYTES_MAX};
    strbuf_init(&w.label, PATH_BYTES_MAX);
    strbuf_init(&w.fresh, FRESH_BYTES_MAX);
    const struct str parts[] = {object->owner, object->ref.group, object->ref.kind, object->ref.ns, object->ref.name};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        strbuf_add_str(&w.label, str_first(parts[i], 1024));
        strbuf_add(&w.label, "\0", 1);
    }
    w.object_len = w.label.len;
    bool good = walk_value(&w, redaction_rules_root(redaction->rules, object->ref.group, object->ref.kind));
    if (good && w.at != w.end) good = fail(&w, "data after the object");
    if (good) replace(&w, w.end, w.end, STR_EMPTY);
    if (good && (out->overflow || w.label.overflow || w.fresh.overflow)) good = fail(&w, "too large");
    strbuf_finish(&w.label);
    strbuf_finish(&w.fresh);
    count(&w);
    if (good) return ERROR_NONE;
    bool is_large = strncmp(w.wrong, "too large", 9) == 0 || strncmp(w.wrong, "nested", 6) == 0;
    return error_set(err, is_large ? ERROR_TOO_LARGE : ERROR_INVALID, "byte %zu: %s", (size_t)(w.at - json.at),
                     w.wrong);
}

enum error_code redaction_apply(const struct redaction *redaction, const struct redaction_object *object,
                                struct str json, struct strbuf *out, struct error *err)
{
    return redaction_explain(redaction, object, json, NULL, out, err);
}

enum error_code redaction_create(const uint8_t key[REDACTION_KEY_BYTES], const struct redaction_options *options,
                                 struct redaction **out, struct error *err)
{
    struct redaction_rules *rules;
    enum error_code code = redaction_rules_create(options, &rules, err);
    if (code != ERROR_NONE) return code;
    struct redaction *redaction = mem_zalloc(sizeof *redaction);
    memcpy(redaction->key, key, REDACTION_KEY_BYTES);
    redaction->rules = rules;
    redaction->digested = options ? options->digested : NULL;
    redaction->scrubbed = options ? options->scrubbed : NULL;
    *out = redaction;
    return ERROR_NONE;
}

void redaction_destroy(struct redaction *redaction)
{
    if (!redaction) return;
    redaction_rules_destroy(redaction->rules);
    mem_free_secret(redaction, sizeof *redaction);
}
