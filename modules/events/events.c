// What event sources send besides the state of objects: POST /2.0/api/events/event-payload, an
// event as CloudEvents write it. 2xx is answered after COMMIT and never before.
#include "api/events/event_body.h"
#include "api/http/request.h"
#include "base/strbuf.h"
#include "modules/events/cloud_event.h"
#include "modules/module.h"

static void on_kept(void *arg, const struct error *err, uint64_t count)
{
    (void)count; // an event that was there already is kept, too
    struct api_request *request = arg;
    if (err)
        api_respond_error(request, err);
    else
        api_respond(request, 200, "application/json; charset=utf-8", STR("{}"));
}

static void post_event(struct api_request *request)
{
    struct strbuf inflated;
    struct str json;
    struct cloud_event event;
    struct error err;
    if (!api_event_body(request, &inflated, &json)) return;
    enum error_code code = cloud_event_parse(json, request->arena, &event, &err);
    strbuf_finish(&inflated);
    if (code != ERROR_NONE) {
        api_respond_error(request, &err);
        return;
    }
    const struct api_principal *who = &request->principal;
    cloud_event_store_put(request->api->options.pg, who->account_id, str_c(who->runtime), &event, on_kept, request);
}

static const struct api_route routes[] = {
    {"/2.0/api/events/event-payload", "POST", API_RUNTIME, API_EVENTS_BODY, post_event},
};

static void sweep_weeks(struct pg *pg, const struct sweep *sweep, const struct sweep_keep *keep,
                        store_count_done on_done, void *arg)
{
    (void)sweep;
    cloud_event_store_partitions(pg, keep->events_days, on_done, arg);
}

static const struct sweep sweeps[] = {
    {"partitions", SWEEP_FIRST, SWEEP_COUNTS_PARTITIONS, .step = sweep_weeks},
};

const struct module module_events = {
    .name = "events",
    MODULE_LIST(routes, routes),
    MODULE_LIST(sweeps, sweeps),
};
