#include "agent/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/reports/projection.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/json/yaml_tree.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 4 * 1024 * 1024, ITEMS_MAX = 1000, SHOWN_BYTES_MAX = 100 };

struct explanation {
    struct strbuf *out;
    size_t counts[REDACTION_DROPPED + 1];
};

static void on_value(void *arg, struct str path, enum redaction_verdict verdict, struct str json)
{
    static const char *const names[] = {[REDACTION_LEAVES] = "leaves",
                                        [REDACTION_SCRUBBED] = "scrubbed",
                                        [REDACTION_DIGESTED] = "digest",
                                        [REDACTION_COLLAPSED] = "digest",
                                        [REDACTION_DROPPED] = "dropped"};
    struct explanation *explanation = arg;
    explanation->counts[verdict]++;
    strbuf_addf(explanation->out, "%-8s  %.*s", names[verdict], STR_ARG(path));
    if (verdict == REDACTION_LEAVES || verdict == REDACTION_SCRUBBED) {
        struct str shown = str_first(json, SHOWN_BYTES_MAX);
        while (shown.len < json.len && shown.len && ((unsigned char)json.at[shown.len] & 0xc0) == 0x80)
            shown.len--;
        strbuf_addf(explanation->out, " = %.*s%s", STR_ARG(shown), shown.len < json.len ? "..." : "");
    } else if (verdict == REDACTION_COLLAPSED) {
        strbuf_add_c(explanation->out, " (as a whole)");
    }
    strbuf_add_byte(explanation->out, '\n');
}

static enum error_code explain_object(const struct redaction *redaction, json_t *object, struct strbuf *out,
                                      struct error *err)
{
    projection_apply(object);
    const json_t *metadata = json_get_object(object, "metadata");
    struct redaction_object identity = {.ref.kind = json_get_str(object, "kind"),
                                        .ref.ns = json_get_str(metadata, "namespace"),
                                        .ref.name = json_get_str(metadata, "name")};
    struct str version = json_get_str(object, "apiVersion");
    object_ref_set_api_version(&identity.ref, version);
    if (!identity.ref.kind.len) return error_set(err, ERROR_INVALID, "kind: missing");
    strbuf_addf(out, "# %.*s %.*s %.*s/%.*s\n", STR_ARG(version), STR_ARG(identity.ref.kind), STR_ARG(identity.ref.ns),
                STR_ARG(identity.ref.name));
    size_t len;
    AUTO_FREE char *text = json_canonical(object, &len);
    struct explanation explanation = {.out = out};
    const struct redaction_observer observer = {on_value, &explanation};
    struct strbuf left;
    strbuf_init(&left, 2 * len + REDACTION_GROWTH_BYTES_MAX + 64 * 1024);
    enum error_code code = redaction_explain(redaction, &identity, str_of(text, len), &observer, &left, err);
    strbuf_finish(&left);
    const size_t *counts = explanation.counts;
    if (code == ERROR_NONE)
        strbuf_addf(out, "# %zu leave, %zu of them scrubbed; %zu are digests; %zu are dropped\n",
                    counts[REDACTION_LEAVES] + counts[REDACTION_SCRUBBED], counts[REDACTION_SCRUBBED],
                    counts[REDACTION_DIGESTED] + counts[REDACTION_COLLAPSED], counts[REDACTION_DROPPED]);
    return code;
}

static enum error_code explain_all(const struct redaction *redaction, json_t *value, struct strbuf *out,
                                   struct error *err)
{
    json_t *items = str_eq(json_get_str(value, "kind"), STR("List")) ? json_get_array(value, "items") : NULL;
    if (!items) return explain_object(redaction, value, out, err);
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        if (i == ITEMS_MAX) return error_set(err, ERROR_TOO_LARGE, "more than %d items", ITEMS_MAX);
        enum error_code code = json_is_object(item) ? explain_object(redaction, item, out, err)
                                                    : error_set(err, ERROR_INVALID, "the manifest has no object");
        if (code != ERROR_NONE) return error_prefix(err, "items");
    }
    return ERROR_NONE;
}

enum error_code explain_redaction(struct str text, const struct redaction_options *options, struct strbuf *out,
                                  struct error *err)
{
    const struct json_limits limits = {.bytes_max = FILE_BYTES_MAX};
    struct redaction *redaction = NULL;
    uint8_t key[REDACTION_KEY_BYTES];
    json_t *value = NULL;
    struct str begin = text;
    while (begin.len && strchr(" \t\r\n", *begin.at))
        begin = str_from(begin, 1);
    enum error_code code = begin.len && *begin.at == '{' ? json_decode(begin, &limits, &value, err)
                                                         : yaml_tree_decode_typed(text, FILE_BYTES_MAX, &value, err);
    if (code == ERROR_NONE && !json_is_object(value)) code = error_set(err, ERROR_INVALID, "must be an object");
    id_random(key, sizeof key);
    if (code == ERROR_NONE) code = redaction_create(key, options, &redaction, err);
    if (code == ERROR_NONE) code = explain_all(redaction, value, out, err);
    if (code == ERROR_NONE && out->overflow) code = error_set(err, ERROR_TOO_LARGE, "too large to be shown");
    redaction_destroy(redaction);
    json_decref(value);
    return code;
}

enum error_code explain_redaction_file(const char *path, const struct redaction_options *options, struct strbuf *out,
                                       struct error *err)
{
    bool is_input = strcmp(path, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    struct strbuf text;
    strbuf_init(&text, FILE_BYTES_MAX);
    ssize_t got = 0;
    char part[16384];
    while (!text.overflow && ((got = read(fd, part, sizeof part)) > 0 || (got < 0 && errno == EINTR)))
        if (got > 0) strbuf_add(&text, part, (size_t)got);
    enum error_code code = ERROR_NONE;
    if (got < 0) code = error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (text.overflow) code = error_set(err, ERROR_TOO_LARGE, "%s: over %d bytes", path, FILE_BYTES_MAX);
    if (!is_input) close(fd);
    if (code == ERROR_NONE) {
        code = explain_redaction(strbuf_str(&text), options, out, err);
        if (code != ERROR_NONE) error_prefix(err, is_input ? "standard input" : path);
    }
    strbuf_finish(&text);
    return code;
}
