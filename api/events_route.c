// POST /2.0/api/events, and the draft's /2.0/api/applications and /2.0/api/resources: reports over HTTP. 2xx is said
// after COMMIT and never before.
#include "api/events.h"
#include "api/inflate.h"
#include "api/request.h"
#include "base/clock.h"

enum { RATIO_MAX = 100 };

static void on_done(void *arg, const struct error *err, size_t refused, const char *detail)
{
    struct api_request *request = arg;
    if (err)
        api_respond_error(request, err);
    else if (refused)
        api_respond_problem(request, 422, "refused", "the event was refused: %s", detail);
    else
        api_respond(request, 200, "application/json; charset=utf-8", STR("{}"));
}

// The body as JSON text, in the arena.
static enum error_code unpack(struct api_request *request, struct str *out, struct error *err)
{
    struct str encoding = request->content_encoding;
    if (encoding.len == 0 || str_eq_nocase(encoding, STR("identity"))) {
        *out = request->body;
        return ERROR_NONE;
    }
    struct strbuf plain;
    strbuf_init(&plain, request->api->options.events_bytes_max);
    enum error_code code = inflate_gzip(request->body, request->api->options.events_bytes_max, RATIO_MAX, &plain, err);
    if (code == ERROR_NONE) *out = arena_str(request->arena, strbuf_str(&plain));
    strbuf_finish(&plain);
    return code;
}

static void take_events(struct api_request *request, enum events_form form)
{
    const struct api_principal *who = &request->principal;
    if (who->kind != PRINCIPAL_RUNTIME) {
        api_respond_problem(request, 403, "forbidden",
                            "events are taken with a runtime token, which says whose they are");
        return;
    }
    bool plain = request->content_encoding.len == 0 || str_eq_nocase(request->content_encoding, STR("identity"));
    if (!plain && !str_eq_nocase(request->content_encoding, STR("gzip"))) {
        api_respond_problem(request, 415, "unsupported_media_type", "the Content-Encoding must be gzip or none");
        return;
    }
    struct error err;
    struct str json;
    struct report report;
    enum error_code code = unpack(request, &json, &err);
    if (code == ERROR_NONE)
        code = events_parse(form, json, str_c(who->account_id), str_c(who->runtime), clock_wall_ms(), request->arena,
                            &report, &err);
    if (code != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    const struct api_options *options = &request->api->options;
    options->submit_reports(options->ctx, &report, 1, on_done, request);
}

void api_events(struct api_request *request)
{
    take_events(request, EVENTS_WRAPPED);
}

void api_events_draft(struct api_request *request)
{
    take_events(request, EVENTS_DRAFT);
}
