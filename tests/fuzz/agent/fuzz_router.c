// The allow-list's settings and the paths that are looked up in it: lines services, webhooks,
// workflows, tcp.allow, then a path. Nothing is reached that no setting names.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/calls/router.h"
#include "agent/calls/router_settings.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_route(const struct agent_router *router, struct str authority, struct str path, const char *text)
{
    struct agent_route route = {.kind = AGENT_ROUTE_REFUSED};
    agent_router_route(router, STR("GET"), authority, path, &route);
    if (!route.label) abort();
    if (route.kind == AGENT_ROUTE_REFUSED && (route.status < 400 || !route.cause)) abort();
    if (route.kind != AGENT_ROUTE_SERVICE) return;
    if (!route.host.len || !route.port || !route.path.len || route.path.at[0] != '/') abort();
    AUTO_FREE char *host = mem_strndup(route.host.at, route.host.len);
    // The host stands in the settings, or is the Service of an event source that does.
    if (!strstr(text, host) && !str_ends(route.host, STR(".svc.cluster.local"))) abort();
    if (!agent_router_path_ok(path)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    AUTO_FREE char *text = mem_strndup((const char *)at, len);
    AUTO_FREE char *whole = mem_strndup((const char *)at, len);
    if (strlen(text) != len) return 0; // settings have no NUL
    char *line[5] = {text};
    for (int i = 1; i < 5; i++) {
        line[i] = strchr(line[i - 1], '\n');
        if (!line[i]) return 0;
        *line[i]++ = '\0';
    }
    struct router_settings settings = {
        .services = line[0], .webhooks = line[1], .workflows = line[2], .tcp_allow = line[3]};
    struct error err = {0};
    struct agent_router *router = agent_router_create(&settings, &err);
    if (!router) {
        if (!err.text[0]) abort();
        return 0;
    }
    check_route(router, STR("runtime"), str_c(line[4]), whole);
    check_route(router, str_c(line[4]), STR("/x"), whole);
    agent_router_destroy(router);
    return 0;
}
