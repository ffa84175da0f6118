#include "server/proxy/call_proxy.h"

#include <assert.h>

#include "base/id.h"
#include "base/mem.h"

enum {
    ARENA_BYTES_MAX = 1024 * 1024,
    BODY_RATE_WINDOW_MS = 60 * 1000,
    WEBHOOKS_PER_SECOND = 20,
    WEBHOOK_BURST_SECONDS = 2
};

enum error_code call_proxy_init(struct call_proxy *proxy, struct loop *loop, const struct call_proxy_options *options,
                                struct error *err)
{
    *proxy = (struct call_proxy){.loop = loop, .options = *options};
    struct call_proxy_options *own = &proxy->options;
    enum error_code code = trusted_proxies_parse(str_c(options->trusted_proxies), &proxy->trusted, err);
    if (code != ERROR_NONE) {
        *proxy = (struct call_proxy){0};
        return code;
    }
    own->tunnel_domain = mem_strdup(options->tunnel_domain ? options->tunnel_domain : "");
    own->platform_host = mem_strdup(options->platform_host ? options->platform_host : "");
    own->trusted_proxies = NULL;
    if (own->body_rate_window_ms == 0) own->body_rate_window_ms = BODY_RATE_WINDOW_MS;
    if (own->webhooks_per_second == 0) own->webhooks_per_second = WEBHOOKS_PER_SECOND;
    id_random(proxy->request_id_seed, sizeof proxy->request_id_seed);
    proxy->webhooks = rate_limiter_create(own->webhooks_per_second, WEBHOOK_BURST_SECONDS);
    proxy->cuts =
        metrics_counter("culvert_ingress_cuts_total",
                        "Connections of the ingress listener that were closed during a request.", "reason", NULL);
    proxy->refused = metrics_counter("culvert_ingress_refused_total",
                                     "Connections of the ingress listener refused by a limit.", "cap", NULL);
    return ERROR_NONE;
}

void call_proxy_finish(struct call_proxy *proxy)
{
    assert(proxy->exchanges == 0 && proxy->authentications == 0);
    rate_limiter_destroy(proxy->webhooks);
    while (proxy->spare_arena_count > 0)
        arena_destroy(proxy->spare_arenas[--proxy->spare_arena_count]);
    mem_free((char *)(uintptr_t)proxy->options.tunnel_domain);
    mem_free((char *)(uintptr_t)proxy->options.platform_host);
}

struct arena *call_proxy_take_arena(struct call_proxy *proxy)
{
    if (proxy->spare_arena_count > 0) return proxy->spare_arenas[--proxy->spare_arena_count];
    return arena_create(ARENA_BYTES_MAX);
}

void call_proxy_give_arena(struct call_proxy *proxy, struct arena *arena)
{
    if (!arena) return;
    arena_reset(arena);
    if (proxy->spare_arena_count < CALL_PROXY_SPARE_ARENAS)
        proxy->spare_arenas[proxy->spare_arena_count++] = arena;
    else
        arena_destroy(arena);
}
