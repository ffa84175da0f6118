#include "server/http/api_door.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "server/http/h2o_door.h"
#include "server/http/runtime_proxy.h"

struct api_door {
    struct worker *worker;
    struct h2o_door *door;
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
        struct http_header headers[4];
        size_t count = 0;
        for (size_t i = 0; i < 4 && response->headers[i].name; i++)
            headers[count++] = (struct http_header){str_c(response->headers[i].name), response->headers[i].value};
        door_request_answer(owed->request, response->status, response->content_type, headers, count, response->body);
    }
    mem_free(owed);
}

static void answer_plain(struct door_request *request, struct str path)
{
    if (str_eq(path, STR("/")))
        door_request_answer(request, 200, "text/plain; charset=utf-8", NULL, 0,
                            STR("Culvert " CULVERT_VERSION "\nGraphQL: POST /2.0/api/graphql\n"));
    else
        door_request_answer(
            request, 404, "application/problem+json", NULL, 0,
            STR("{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\"code\":\"not_found\","
                "\"detail\":\"no resource at this path\"}"));
}

static void on_request(void *ctx, struct door_request *request)
{
    struct api_door *door = ctx;
    struct str query = door_request_target(request), path;
    str_cut(&query, '?', &path);
    if (str_starts(path, STR("/runtimes/"))) {
        runtime_proxy_take(door->worker, request);
        return;
    }
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
        .request_id = door_request_id(request),
        .remote = door_request_peer(request),
        .body = door_request_body(request),
    };
    api_handle(door->worker->api_core, &http, on_responded, owed);
}

struct api_door *api_door_create(struct worker *worker, SSL_CTX *tls, struct error *err)
{
    const struct server_config *config = worker->server->config;
    struct api_door *door = mem_zalloc(sizeof *door);
    door->worker = worker;
    door->door = h2o_door_create(worker->loop,
                                 &(struct h2o_door_options){
                                     .name = "api",
                                     .listen = config->api_listen,
                                     .tls = tls,
                                     .hsts_max_age_ms = (uint64_t)config->tls_hsts_max_age_ms,
                                     .request_timeout_ms = (uint64_t)config->api_request_timeout_ms,
                                     .body_bytes_max = (size_t)config->api_events_bytes_max,
                                     .head_bytes_max = (size_t)config->head_bytes_max,
                                     .connections = &worker->server->api_connections,
                                     .addresses = worker->server->api_addresses,
                                     .trusted_proxies = config->ingress_trusted_proxies,
                                     .on_request = on_request,
                                     .ctx = door,
                                 },
                                 err);
    if (door->door) return door;
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

void api_door_close(struct api_door *door, loop_fn on_closed, void *arg)
{
    h2o_door_close(door->door, on_closed, arg);
}

void api_door_destroy(struct api_door *door)
{
    if (!door) return;
    h2o_door_destroy(door->door);
    mem_free(door);
}
