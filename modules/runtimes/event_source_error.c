// Errors of a runtime's event sources: POST /2.0/api/events/error, a JSON string. 2xx is answered
// after COMMIT and never before.
#include "api/events/event_body.h"
#include "api/http/request.h"
#include "base/strbuf.h"
#include "modules/runtimes/runtime_error_store.h"
#include "modules/runtimes/runtimes.h"

static void on_kept(void *arg, const struct error *err, uint64_t count)
{
    (void)count; // an error that was there already is kept, too
    struct api_request *request = arg;
    if (err)
        api_respond_error(request, err);
    else
        api_respond(request, 200, "application/json; charset=utf-8", STR("{}"));
}

// The decoder takes objects and arrays only, so the string goes into brackets; nothing else gets in with it, because
// what is decoded must then be one string.
static enum error_code parse_error_text(struct str json, struct arena *arena, struct str *out, struct error *err)
{
    static const struct json_limits limits = {.bytes_max = 1024 * 1024, .depth_max = 2, .tokens_max = 4};
    struct strbuf wrapped;
    strbuf_init(&wrapped, limits.bytes_max);
    strbuf_add_byte(&wrapped, '[');
    strbuf_add_str(&wrapped, json);
    json_t *list = NULL;
    enum error_code code =
        strbuf_add_byte(&wrapped, ']') ? json_decode(strbuf_str(&wrapped), &limits, &list, NULL) : ERROR_TOO_LARGE;
    struct str text = json_str(json_array_get(list, 0));
    if (code != ERROR_NONE || json_array_size(list) != 1 || !text.len)
        code = error_set(err, code == ERROR_TOO_LARGE ? code : ERROR_INVALID, "body: must be one JSON string");
    else if (memchr(text.at, '\0', text.len))
        code = error_set(err, ERROR_INVALID, "body: contains a NUL character");
    else
        *out = arena_str(arena, text);
    json_decref(list);
    strbuf_finish(&wrapped);
    return code;
}

void runtimes_event_source_error(struct api_request *request)
{
    struct strbuf inflated;
    struct str json;
    struct runtime_error told = {0};
    struct error err;
    if (!api_event_body(request, &inflated, &json)) return;
    enum error_code code = parse_error_text(json, request->arena, &told.message, &err);
    strbuf_finish(&inflated);
    if (code != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    const struct api_principal *who = &request->principal;
    runtime_error_store_put(request->api->options.pg, who->account_id, str_c(who->runtime), RUNTIME_ERROR_EVENT_SOURCE,
                            &told, 1, on_kept, request);
}
