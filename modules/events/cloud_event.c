#include "modules/events/cloud_event.h"

#include <ctype.h>
#include <string.h>

#include "api/events/event_document.h"
#include "base/clock.h"
#include "base/mem.h"

// ---- secrets -------------------------------------------------------------------------------------------------------

// Letters only, lower case: X-Gitlab-Token, x_gitlab_token and xGitlabToken are one.
static bool is_secret_key(const char *key)
{
    static const char *const words[] = {"authorization", "cookie",     "password", "passwd",   "secret",
                                        "token",         "privatekey", "apikey",   "signature"};
    char plain[64];
    size_t len = 0;
    for (; *key && len + 1 < sizeof plain; key++)
        if (isalpha((unsigned char)*key)) plain[len++] = (char)tolower((unsigned char)*key);
    plain[len] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(plain, words[i])) return true;
    return false;
}

// Texts and lists with texts go; what lies deeper is looked at by its own keys.
static bool holds_text(const json_t *value)
{
    if (json_is_string(value)) return true;
    size_t i;
    json_t *each;
    json_array_foreach(value, i, each)
    {
        if (json_is_string(each)) return true;
    }
    return false;
}

// As deep as the decoder allowed.
static void redact(json_t *value)
{
    size_t i;
    const char *key;
    json_t *each;
    json_array_foreach(value, i, each) redact(each);
    json_object_foreach(value, key, each)
    {
        if (is_secret_key(key) && holds_text(each))
            json_object_set_new(value, key, json_null()); // an existing key: the iteration stays valid
        else
            redact(each);
    }
}

// ---- the event -----------------------------------------------------------------------------------------------------

static enum error_code take_attribute(const json_t *event, const char *name, bool is_needed, struct arena *arena,
                                      struct str *out, struct error *err)
{
    const json_t *value = json_object_get(event, name);
    struct str text = json_str(value);
    *out = STR_EMPTY;
    if (value && !json_is_null(value) && !json_is_string(value))
        return error_set(err, ERROR_INVALID, "%s: must be a string", name);
    if (text.len == 0) return is_needed ? error_set(err, ERROR_INVALID, "%s: missing", name) : ERROR_NONE;
    if (text.len > CLOUD_EVENT_ATTRIBUTE_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "%s: %zu bytes, the limit is %d", name, text.len,
                         CLOUD_EVENT_ATTRIBUTE_BYTES_MAX);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return error_set(err, ERROR_INVALID, "%s: contains a control character", name);
    *out = arena_str(arena, text);
    return ERROR_NONE;
}

static enum error_code take_attributes(const json_t *event, struct arena *arena, struct cloud_event *out,
                                       struct error *err)
{
    struct str version = json_get_str(event, "specversion");
    if (!version.len) return error_set(err, ERROR_INVALID, "specversion: missing");
    if (!str_eq(version, STR("1.0")) && !str_eq(version, STR("0.3")))
        return error_set(err, ERROR_INVALID, "specversion: must be \"1.0\" or \"0.3\"");
    enum error_code code = take_attribute(event, "id", true, arena, &out->id, err);
    if (code == ERROR_NONE) code = take_attribute(event, "source", true, arena, &out->source, err);
    if (code == ERROR_NONE) code = take_attribute(event, "type", true, arena, &out->type, err);
    if (code == ERROR_NONE) code = take_attribute(event, "subject", false, arena, &out->subject, err);
    if (code == ERROR_NONE) code = take_attribute(event, "time", false, arena, &out->time, err);
    int64_t ms;
    if (code == ERROR_NONE && out->time.len && clock_parse_rfc3339(out->time, &ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "time: must be an RFC 3339 time");
    return code;
}

// JSON is looked through for secrets however it is wrapped; other data stays as it came.
static void open_data(json_t *event)
{
    static const char *const members[] = {"data", "data_base64"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_t *value = json_object_get(event, members[i]), *data = NULL;
        if (!json_is_string(value)) continue;
        if (event_document_unwrap(value, members[i], &data, NULL) != ERROR_NONE) continue;
        json_object_del(event, members[i]);
        json_object_set_new(event, "data", data);
        return;
    }
}

enum error_code cloud_event_parse(struct str json, struct arena *arena, struct cloud_event *out, struct error *err)
{
    json_t *event = NULL;
    struct cloud_event taken = {0};
    enum error_code code = event_document_decode(json, "body", &event, err);
    if (code == ERROR_NONE) code = take_attributes(event, arena, &taken, err);
    if (code == ERROR_NONE) {
        open_data(event);
        redact(event);
        size_t len;
        char *text = json_canonical(event, &len);
        if (len > EVENT_DOCUMENT_BYTES_MAX)
            code = error_set(err, ERROR_TOO_LARGE, "body: %zu bytes of JSON, the limit is %d", len,
                             EVENT_DOCUMENT_BYTES_MAX);
        else
            taken.json = arena_str(arena, str_of(text, len));
        mem_free(text);
    }
    json_decref(event);
    if (code == ERROR_NONE) *out = taken;
    return code;
}
