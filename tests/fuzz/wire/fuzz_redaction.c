// Redaction of any object under the rules of any kind: no crash, the same result twice, valid JSON
// again, bounded, and nothing of a Secret's values or of a kind that nobody knows is left. The
// first byte chooses the kind.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "tunnel/wire/redaction.h"
#include "tunnel/wire/redaction_scrub.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static const uint8_t key[REDACTION_KEY_BYTES] = {7};

static const struct {
    const char *group, *kind;
} kinds[] = {{"", "Secret"},
             {"", "ConfigMap"},
             {"apps", "Deployment"},
             {"", "Pod"},
             {"", "Service"},
             {"argoproj.io", "Workflow"},
             {"argoproj.io", "Rollout"},
             {"argoproj.io", "AnalysisRun"},
             {"argoproj.io", "Application"},
             {"argoproj.io", "ApplicationSet"},
             {"example.com", "Thing"},
             {"batch", "CronJob"}};

static void redact(const struct redaction *redaction, size_t kind, struct str text, struct strbuf *out, bool *out_good)
{
    const struct redaction_object object = {.ref.group = str_c(kinds[kind].group),
                                            .ref.kind = str_c(kinds[kind].kind),
                                            .ref.ns = STR("n"),
                                            .ref.name = STR("m")};
    strbuf_init(out, 2 * text.len + REDACTION_GROWTH_BYTES_MAX + 64 * 1024);
    *out_good = redaction_apply(redaction, &object, text, out, NULL) == ERROR_NONE;
}

// Values of a Secret's data must be digests afterwards, or stand for one.
static void check_secret(const json_t *object)
{
    static const char *const maps[] = {"data", "stringData", "anything"};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(json_get_object(object, maps[i]), name, value)
        {
            struct str text = json_str(value);
            if (json_is_string(value) && text.len && !str_starts(text, STR("hmac-sha256:")) &&
                !str_eq(text, STR("redacted")))
                abort();
            if (json_is_number(value) || json_is_boolean(value)) abort();
        }
    }
}

static void check(const struct redaction *redaction, size_t kind, struct str text)
{
    struct strbuf first, second;
    bool good, again;
    redact(redaction, kind, text, &first, &good);
    redact(redaction, kind, text, &second, &again);
    if (good != again || (good && !str_eq(strbuf_str(&first), strbuf_str(&second)))) abort();
    strbuf_finish(&first);
    strbuf_finish(&second);
    // What is canonical comes out as canonical.
    json_t *object, *back;
    if (json_decode(text, NULL, &object, NULL) != ERROR_NONE) return;
    if (json_is_object(object)) {
        size_t len;
        char *canonical = json_canonical(object, &len);
        redact(redaction, kind, str_of(canonical, len), &first, &good);
        if (good) {
            const struct json_limits limits = {.bytes_max = 64 << 20, .depth_max = 200, .tokens_max = 10000000};
            if (json_decode(strbuf_str(&first), &limits, &back, NULL) != ERROR_NONE) abort();
            if (kind == 0) check_secret(back);
            size_t back_len;
            char *same = json_canonical(back, &back_len);
            if (!str_eq(str_of(same, back_len), strbuf_str(&first))) abort();
            mem_free(same);
            json_decref(back);
        }
        strbuf_finish(&first);
        mem_free(canonical);
    }
    json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static struct redaction *redaction;
    static const struct redaction_options options = {.open_paths = STR("Thing.example.com:spec.open"),
                                                     .open_labels = STR("a*")};
    if (!redaction && redaction_create(key, &options, &redaction, NULL) != ERROR_NONE) abort();
    if (!len) return 0;
    struct str text = str_of((const char *)at + 1, len - 1);
    struct strbuf out;
    strbuf_init(&out, text.len * 2 + 64);
    redaction_scrub(text, &out);
    if (out.overflow) abort();
    strbuf_finish(&out);
    check(redaction, *at % (sizeof kinds / sizeof *kinds), text);
    return 0;
}
