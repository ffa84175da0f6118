// Any bytes as the body of an event: what is taken is bounded, has its identity, belongs to the
// credential's runtime and carries no value of a Secret.
#include <stdint.h>
#include <stdlib.h>

#include "api/events/events.h"
#include "base/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check(bool holds)
{
    if (!holds) abort();
}

static void check_identity(struct str value)
{
    check(value.len <= EVENTS_IDENTITY_BYTES_MAX);
    check(value.len == 0 || str_is_utf8(value));
}

// A digest, or what stands for one; nothing stays nothing, and what lies below is the same.
static void check_closed(const json_t *value)
{
    struct str text = json_str(value);
    size_t i;
    const char *key;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)value, i, each) check_closed(each);
    json_object_foreach((json_t *)(uintptr_t)value, key, each) check_closed(each);
    check(!json_is_number(value) && !json_is_boolean(value));
    check(!text.len || str_starts(text, STR("hmac-sha256:")) || str_eq(text, STR("redacted")));
}

static void check_secret_values(const json_t *manifest, const char *member)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_get_object(manifest, member), key, value) check_closed(value);
}

static void check_manifest(const struct report *report)
{
    static const struct json_limits limits = {.bytes_max = EVENTS_BODY_BYTES_MAX, .tokens_max = 500000};
    json_t *manifest = NULL;
    struct error err;
    check(json_decode(report->manifest, &limits, &manifest, &err) == ERROR_NONE);
    check(json_is_object(manifest));
    if (str_eq(report->ref.kind, STR("Secret"))) {
        check_secret_values(manifest, "data");
        check_secret_values(manifest, "stringData");
    }
    json_decref(manifest);
}

static void parse(enum events_form form, const uint8_t *at, size_t len)
{
    const int64_t now_ms = INT64_C(1800000000000);
    static const uint8_t key[REDACTION_KEY_BYTES] = {1};
    static struct redaction *redaction;
    if (!redaction) check(redaction_create(key, NULL, &redaction, NULL) == ERROR_NONE);
    struct arena *arena = arena_create(EVENTS_ARENA_BYTES);
    struct error err = {0};
    struct report report;
    enum error_code code = events_parse(form, redaction, str_of((const char *)at, len), STR("account"), STR("runtime"),
                                        now_ms, arena, &report, &err);
    if (code == ERROR_NONE) {
        check(str_eq(report.account_id, STR("account")) && str_eq(report.runtime, STR("runtime")));
        check(report.source == REPORT_FROM_HTTP);
        check(report.type == REPORT_OBJECT || report.type == REPORT_DELETED);
        check(report.ref.kind.len && report.ref.name.len && report.ref.version.len && report.cluster.len);
        check(report.observed_at_ms <= now_ms + 24 * 3600 * INT64_C(1000));
        const struct str identities[] = {report.ref.group, report.ref.version,    report.ref.kind,
                                         report.ref.ns,    report.ref.name,       report.ref.uid,
                                         report.cluster,   report.application_ns, report.application_name};
        for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++)
            check_identity(identities[i]);
        if (report.type == REPORT_OBJECT) check_manifest(&report);
    } else {
        check(err.code == code && err.text[0]);
    }
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    parse(EVENTS_WRAPPED, at, len);
    parse(EVENTS_DRAFT, at, len);
    return 0;
}
