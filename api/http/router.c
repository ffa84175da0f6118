#include <assert.h>
#include <string.h>

#include "api/access/permission.h"
#include "api/access/request_rates.h"
#include "api/http/actor.h"
#include "api/http/request.h"
#include "api/http/route.h"
#include "api/live/live.h"
#include "api/rest/mcp.h"
#include "api/rest/stored_route.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"

enum { ARENA_BYTES_MAX = 96 * 1024 * 1024, LIMITED_RETRY_AFTER_S = 10 };

static void ping(struct api_request *request)
{
    api_respond(request, 200, "text/plain; charset=utf-8", STR("pong"));
}

// Of the API itself; modules have more (api_options.routes).
static const struct api_route own_routes[] = {
    {"/2.0/api/graphql", "GET, POST", API_USER_OR_RUNTIME, API_JSON_BODY, api_graphql},
    {"/2.0/api/graphql/schema.graphql", "GET", API_ANYBODY, API_NO_BODY, api_graphql_schema},
    {"/2.0/api/events", "POST", API_RUNTIME, API_EVENTS_BODY, api_events},
    {"/2.0/api/applications", "POST", API_RUNTIME, API_EVENTS_BODY, api_events_draft},
    {"/2.0/api/resources", "POST", API_RUNTIME, API_EVENTS_BODY, api_events_draft},
    {"/api/ping", "GET", API_ANYBODY, API_NO_BODY, ping},
    {"/openapi.json", "GET", API_ANYBODY, API_NO_BODY, rest_openapi},
    {"/v1", "GET", API_ANYBODY, API_NO_BODY, rest_page},
    {"/v1/page.js", "GET", API_ANYBODY, API_NO_BODY, rest_script},
    {"/mcp", "POST", API_USER_OR_RUNTIME, API_JSON_BODY, mcp_handle},
};

static size_t count_routes(const struct api *api)
{
    size_t stored = api->options.stored ? api->options.stored->count : 0;
    return sizeof own_routes / sizeof *own_routes + api->options.route_count + stored;
}

static const struct api_route *route_at(const struct api *api, size_t i)
{
    size_t own = sizeof own_routes / sizeof *own_routes;
    size_t fixed = own + api->options.route_count;
    if (i >= fixed) return &api->options.stored->list[i - fixed].route;
    return i < own ? &own_routes[i] : &api->options.routes[i - own];
}

// values may be NULL.
static bool fits(const struct api_route *route, struct str path, struct str values[API_PATH_VALUES_MAX])
{
    struct str pattern = str_c(route->path), wanted, segment;
    if (!str_has_byte(pattern, '{')) return str_eq(path, pattern);
    size_t count = 0;
    bool more_wanted, more;
    do {
        more_wanted = str_cut(&pattern, '/', &wanted);
        more = str_cut(&path, '/', &segment);
        if (!str_starts(wanted, STR("{"))) {
            if (!str_eq(segment, wanted)) return false;
            continue;
        }
        assert(count < API_PATH_VALUES_MAX);
        if (segment.len == 0) return false;
        if (values) values[count] = segment;
        count++;
    } while (more_wanted && more);
    return more_wanted == more;
}

static bool allows(const struct api_route *route, struct str method)
{
    if (str_eq(method, STR("HEAD"))) method = STR("GET");
    struct str rest = str_c(route->methods), one;
    while (rest.len) {
        str_cut(&rest, ',', &one);
        if (str_eq(str_trim(one), method)) return true;
    }
    return false;
}

// The one that takes this method where there is one, else any of the path. The Argo CD fork joins
// its URL so that a trailing slash may stand behind the path.
static const struct api_route *route_of(const struct api *api, struct str method, struct str path,
                                        struct str values[API_PATH_VALUES_MAX])
{
    const struct api_route *found = NULL;
    if (path.len > 1 && path.at[path.len - 1] == '/') path.len--;
    for (size_t i = 0; i < count_routes(api); i++) {
        const struct api_route *route = route_at(api, i);
        if (!fits(route, path, values)) continue;
        found = route;
        if (allows(route, method)) break;
    }
    return found;
}

// All methods that a path takes.
static void respond_not_allowed(struct api_request *request)
{
    struct strbuf methods;
    struct str path = request->path;
    if (path.len > 1 && path.at[path.len - 1] == '/') path.len--;
    strbuf_init(&methods, 256);
    for (size_t i = 0; i < count_routes(request->api); i++)
        if (fits(route_at(request->api, i), path, NULL))
            strbuf_addf(&methods, "%s%s", methods.len ? ", " : "", route_at(request->api, i)->methods);
    struct str text = arena_str(request->arena, strbuf_str(&methods));
    strbuf_finish(&methods);
    api_respond_not_allowed(request, text);
}

// Event sources call an event by its own media type (CloudEvents 1.0, JSON format, section 3).
static bool takes_type(const struct api_route *route, struct str content_type)
{
    struct str type;
    str_cut(&content_type, ';', &type);
    type = str_trim(type);
    if (route->body == API_FORM_BODY) return str_eq_nocase(type, STR("application/x-www-form-urlencoded"));
    return str_eq_nocase(type, STR("application/json")) ||
           (route->body == API_EVENTS_BODY && str_eq_nocase(type, STR("application/cloudevents+json")));
}

bool api_has_path(struct str path)
{
    return str_starts(path, STR("/2.0/")) || str_starts(path, STR("/api/")) || str_starts(path, STR("/v1/")) ||
           str_eq(path, STR("/v1")) || str_eq(path, STR("/openapi.json")) || str_eq(path, STR("/mcp")) ||
           str_starts(path, STR("/.well-known/"));
}

size_t api_body_bytes_max(const struct api *api, struct str path)
{
    const struct api_route *route = route_of(api, STR("POST"), path, NULL);
    return route && route->body == API_EVENTS_BODY ? api->options.events_bytes_max : api->options.body_bytes_max;
}

struct api *api_create(const struct api_options *options)
{
    struct api *api = mem_zalloc(sizeof *api);
    api->options = *options;
    api->answers = answer_cache_create(&(struct answer_cache_options){
        .loop = options->loop,
        .pg = options->pg,
        .redis = options->redis,
        .key = options->cache_key,
        .answer_bytes_max = options->cache_answer_bytes_max,
        .slower_than_us = options->cache_slower_than_us,
        .ttl_ms = options->cache_ttl_ms,
        .patience_ms = options->cache_patience_ms,
    });
    api->plans = plan_cache_create(options->plans_max);
    api->documents = document_cache_create(options->documents_max);
    api->counts = count_cache_create(options->counts_max, options->count_interval_ms);
    struct live_options live = *options->live;
    live.loop = options->loop;
    api->live = live_create(&live);
    return api;
}

struct live *api_live(struct api *api)
{
    return api->live;
}

void api_destroy(struct api *api)
{
    if (!api) return;
    live_destroy(api->live);
    answer_cache_destroy(api->answers);
    plan_cache_destroy(api->plans);
    document_cache_destroy(api->documents);
    count_cache_destroy(api->counts);
    purpose_key_finish(&api->options.cache_key);
    mem_free(api);
}

static bool reads(struct str method)
{
    return str_eq(method, STR("GET")) || str_eq(method, STR("HEAD"));
}

// False: the request is answered.
static bool may_call(struct api_request *request)
{
    enum api_caller caller = request->route->caller;
    bool is_user = request->principal.kind == PRINCIPAL_USER;
    if (caller != API_USER_OR_RUNTIME && is_user == (caller == API_RUNTIME)) {
        api_respond_problem(request, 403, "forbidden",
                            is_user ? "events require a runtime token, which identifies their runtime"
                                    : "a runtime token belongs to no user");
        return false;
    }
    if (caller == API_USER_OR_RUNTIME) return true; // GraphQL: by field
    struct error err;
    enum permission needed = caller == API_ADMIN      ? PERMISSION_ADMINISTER
                             : caller == API_USER_OWN ? PERMISSION_OWN
                             : reads(request->method) ? PERMISSION_READ
                                                      : PERMISSION_WRITE;
    // Whoever is signed in may see as whom, also with a key that may do less.
    if (needed == PERMISSION_OWN && reads(request->method)) return true;
    if (permission_check(&request->principal, needed, request->route->path, &err) == ERROR_NONE) return true;
    api_respond_error(request, &err);
    return false;
}

static void on_authenticated(void *arg, const struct error *err, const struct api_principal *principal)
{
    struct api_request *request = arg;
    if (err) {
        if (err->code == ERROR_LIMITED) request->retry_after_s = LIMITED_RETRY_AFTER_S;
        api_respond_error(request, err);
        return;
    }
    struct error unknown;
    if (api_auth_rules(request->api->options.auth, principal, &request->rules, &unknown) != ERROR_NONE) {
        api_respond_error(request, &unknown);
        return;
    }
    request->principal = *principal;
    request->authenticated = true;
    const struct api_options *options = &request->api->options;
    bool is_limited = options->rates && request->route->body != API_EVENTS_BODY;
    if (is_limited && request_rates_take(options->rates, principal, clock_mono_ms(), &request->retry_after_s,
                                         &unknown) != ERROR_NONE) {
        api_respond_error(request, &unknown);
        return;
    }
    if (options->on_call) options->on_call(options->ctx, principal->account_id);
    if (!may_call(request)) return;
    // GraphQL does so by field.
    bool changes = !reads(request->method) && request->route->caller != API_USER_OR_RUNTIME;
    struct pg *pg = options->pg;
    if (changes) actor_set(request, principal);
    request->route->handle(request); // may be the end of the request
    if (changes) actor_clear(pg);
}

// False: the request is answered.
static bool check(struct api_request *request)
{
    const struct api_route *route = request->route;
    if (!route) {
        api_respond_problem(request, 404, "not_found", "no resource at this path");
        return false;
    }
    if (!allows(route, request->method)) {
        respond_not_allowed(request);
        return false;
    }
    bool posts = str_eq(request->method, STR("POST"));
    if (posts && !takes_type(route, request->content_type)) {
        api_respond_problem(request, 415, "unsupported_media_type", "the Content-Type must be application/%s",
                            route->body == API_FORM_BODY ? "x-www-form-urlencoded" : "json");
        return false;
    }
    size_t most = api_body_bytes_max(request->api, request->path);
    if (request->body.len > most) {
        api_respond_problem(request, 413, "too_large", "a body of %zu bytes, the limit is %zu", request->body.len,
                            most);
        return false;
    }
    bool encoded = request->content_encoding.len && !str_eq_nocase(request->content_encoding, STR("identity"));
    if (encoded && route->body != API_EVENTS_BODY) {
        api_respond_problem(request, 415, "unsupported_media_type",
                            "a Content-Encoding is taken by the event routes only");
        return false;
    }
    return true;
}

void api_handle(struct api *api, const struct api_http_request *http, api_responded on_responded, void *arg)
{
    struct api_request *request = mem_zalloc(sizeof *request);
    request->api = api;
    request->arena = arena_create(ARENA_BYTES_MAX);
    request->method = arena_str(request->arena, http->method);
    request->path = arena_str(request->arena, http->path);
    request->query = arena_str(request->arena, http->query);
    request->content_type = arena_str(request->arena, http->content_type);
    request->content_encoding = arena_str(request->arena, http->content_encoding);
    request->media = negotiate_media(http->accept);
    request->coding = negotiate_coding(http->accept_encoding);
    request->request_id = arena_str(request->arena, http->request_id);
    request->remote = arena_str(request->arena, http->remote);
    request->cookie = arena_str(request->arena, http->cookie);
    request->sec_fetch_site = arena_str(request->arena, http->sec_fetch_site);
    request->user_agent = arena_str(request->arena, http->user_agent);
    request->if_none_match = arena_str(request->arena, http->if_none_match);
    request->idempotency_key = arena_str(request->arena, http->idempotency_key);
    request->mcp_protocol_version = arena_str(request->arena, http->mcp_protocol_version);
    request->last_event_id = arena_str(request->arena, http->last_event_id);
    request->body = http->body;
    request->route = route_of(api, request->method, request->path, request->path_values);
    request->on_responded = on_responded;
    request->arg = arg;
    if (!check(request)) return;
    request->body = arena_str(request->arena, http->body);
    if (request->route->caller == API_ANYBODY) {
        request->route->handle(request);
        return;
    }
    const struct api_credentials credentials = {
        .authorization = http->authorization,
        .x_access_token = http->x_access_token,
        .cookie = http->cookie,
        .csrf_token = http->csrf_token,
        .sec_fetch_site = http->sec_fetch_site,
        .needs_csrf_token = !reads(http->method),
    };
    api_auth_check_credentials(api->options.auth, &credentials, http->remote, on_authenticated, request);
}
