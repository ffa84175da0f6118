// POST /2.0/api/events, and the draft's /2.0/api/applications and /2.0/api/resources: reports over
// HTTP. 2xx is said after COMMIT and never before.
#include "api/events/event_body.h"
#include "api/events/events.h"
#include "api/http/request.h"
#include "base/clock.h"

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

static void take_events(struct api_request *request, enum events_form form)
{
    const struct api_principal *who = &request->principal;
    struct error err;
    struct strbuf inflated; // not in the arena, which lives until COMMIT
    struct str json;
    struct report report;
    if (!api_event_body(request, &inflated, &json)) return;
    enum error_code code = events_parse(form, request->api->options.redaction, json, str_c(who->account_id),
                                        str_c(who->runtime), clock_wall_ms(), request->arena, &report, &err);
    strbuf_finish(&inflated);
    if (code != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    const struct api_options *options = &request->api->options;
    report.is_kept = true; // in the request's arena, which goes with the answer
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
