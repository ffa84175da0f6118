#include "server/http/api_door.h"

#include "api/api.h"
#include "base/mem.h"
#include "server/http/runtime_proxy.h"
#include "server/ui/ui_site.h"

struct api_door {
    struct api *api;
    const struct ui_files *ui;
    struct h2o_door *door;
    struct runtime_proxy *proxy;
    loop_fn on_closed;
    void *on_closed_arg;
};

// A request whose answer the API still owes; it outlives the door's request when the client leaves.
struct owed {
    struct door_request *request; // NULL: the client left
};

static void on_gone(void *arg)
{
    ((struct owed *)arg)->request = NULL;
}

static void on_responded(void *arg, const struct api_http_response *response)
{
    struct owed *owed = arg;
    if (owed->request) {
        if (response->problem)
            door_request_problem(owed->request, response->problem, response->headers, response->header_count);
        else
            door_request_answer(owed->request, response->status, response->content_type, response->headers,
                                response->header_count, response->body);
    }
    mem_free(owed);
}

static void answer_plain(struct door_request *request, struct str path)
{
    if (str_eq(path, STR("/")))
        door_request_answer(request, 200, "text/plain; charset=utf-8", NULL, 0,
                            STR("Culvert " CULVERT_VERSION "\nGraphQL: POST /2.0/api/graphql\n"));
    else
        door_request_problem(
            request,
            &(struct http_problem){.status = 404, .code = "not_found", .detail = STR("no resource at this path")}, NULL,
            0);
}

static void on_request(void *ctx, struct door_request *request)
{
    struct api_door *door = ctx;
    struct str query = door_request_target(request), path;
    str_cut(&query, '?', &path);
    if (str_starts(path, STR("/runtimes/"))) {
        runtime_proxy_take(door->proxy, request);
        return;
    }
    path = ui_site_local_path(door->ui, path);
    if (ui_site_take(door->ui, request, path)) return;
    if (!api_has_path(path)) {
        answer_plain(request, path);
        return;
    }
    struct owed *owed = mem_alloc(sizeof *owed);
    owed->request = request;
    door_request_on_gone(request, on_gone, owed, false);
    struct api_http_request http = {
        .method = door_request_method(request),
        .path = path,
        .query = query,
        .authorization = door_request_header(request, STR("authorization")),
        .x_access_token = door_request_header(request, STR("x-access-token")),
        .content_type = door_request_header(request, STR("content-type")),
        .content_encoding = door_request_header(request, STR("content-encoding")),
        .cookie = door_request_header(request, STR("cookie")),
        .csrf_token = door_request_header(request, STR("x-csrf-token")),
        .sec_fetch_site = door_request_header(request, STR("sec-fetch-site")),
        .user_agent = door_request_header(request, STR("user-agent")),
        .accept = door_request_header(request, STR("accept")),
        .accept_encoding = door_request_header(request, STR("accept-encoding")),
        .request_id = door_request_id(request),
        .remote = door_request_peer(request),
        .body = door_request_body(request),
    };
    api_handle(door->api, &http, on_responded, owed);
}

struct api_door *api_door_create(struct loop *loop, const struct api_door_options *options, struct error *err)
{
    struct api_door *door = mem_zalloc(sizeof *door);
    struct h2o_door_options http = options->http;
    http.on_request = on_request;
    http.ctx = door;
    door->api = options->api;
    door->ui = options->ui;
    door->proxy = runtime_proxy_create(loop, &options->calls, options->accounts, err);
    if (door->proxy) door->door = h2o_door_create(loop, &http, err);
    if (door->door) return door;
    runtime_proxy_destroy(door->proxy);
    mem_free(door);
    return NULL;
}

void api_door_set_tls(struct api_door *door, SSL_CTX *tls)
{
    h2o_door_set_tls(door->door, tls);
}

void api_door_wind_down(struct api_door *door)
{
    h2o_door_wind_down(door->door);
}

void api_door_stop_accepting(struct api_door *door)
{
    h2o_door_stop_accepting(door->door);
}

bool api_door_is_idle(const struct api_door *door)
{
    return h2o_door_is_idle(door->door);
}

static void on_door_closed(void *arg)
{
    struct api_door *door = arg;
    runtime_proxy_close(door->proxy, door->on_closed, door->on_closed_arg);
}

void api_door_close(struct api_door *door, loop_fn on_closed, void *arg)
{
    door->on_closed = on_closed;
    door->on_closed_arg = arg;
    h2o_door_close(door->door, on_door_closed, door);
}

void api_door_destroy(struct api_door *door)
{
    if (!door) return;
    h2o_door_destroy(door->door);
    runtime_proxy_destroy(door->proxy);
    mem_free(door);
}
