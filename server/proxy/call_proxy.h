// call_proxy: what the calls that come in at one endpoint of a loop share, whichever endpoint it
// is: the tunnel's node, the credential check, the limits, the counters. There is one proxy for
// calls into clusters with two thin fronts, the ingress listener (server/ingress/) and
// `/runtimes/<name>/proxy/` of the API (server/http/runtime_proxy.h): same causes, same statuses,
// same limits, same header rules. One request is a call_exchange. Lives in its endpoint; everything
// on its loop.
#ifndef CULVERT_SERVER_CALL_PROXY_H
#define CULVERT_SERVER_CALL_PROXY_H

#include "base/arena.h"
#include "base/error.h"
#include "base/loop/loop.h"
#include "base/metrics/metrics.h"
#include "base/rate_limiter.h"
#include "base/str.h"
#include "server/chores/credential_watch.h"
#include "server/proxy/trusted_proxies.h"
#include "tunnel/broker.h"

enum { CALL_PROXY_SPARE_ARENAS = 64 };

// Whose credential it is.
struct call_principal {
    struct str account_id, user_id, user_name;
    struct str token_id; // of the key, as struct credential_watch knows it
    uint64_t rights;     // that it has now (credential_watch_add_rights())
};

// What a call presents; views. cookie: of calls at the platform's own origin, where there is no
// token: the whole field, with what belongs to it (api/access/session_cookie.h).
struct call_credential {
    struct str token; // without scheme
    struct str cookie, csrf_token, sec_fetch_site;
    struct str runtime; // that is called
};

// The answer to authenticate(), once, on the same loop, now or later. err NULL: the credential is
// good. Else principal is NULL, and ERROR_UNAUTHENTICATED -> 401, ERROR_FORBIDDEN -> 403,
// ERROR_LIMITED -> 429, ERROR_UNAVAILABLE -> 503, others -> 500. Views are valid during the call.
typedef void (*call_authenticated)(void *arg, const struct error *err, const struct call_principal *principal);

struct call_proxy_options {
    struct tunnel_node *node;    // of the same loop
    const char *tunnel_domain;   // lower case
    const char *platform_host;   // lower case, without port; NULL or empty: none
    const char *trusted_proxies; // networks whose X-Forwarded-* are believed; NULL: none
    // What a client must send of a body that waits for nothing but it, over each window; 0: no
    // least, and 60,000.
    uint64_t body_bytes_per_second_min, body_rate_window_ms;
    unsigned webhooks_per_second; // per runtime; 0: 20
    // What ends when its credential is not valid any more: of the same loop. NULL: nothing does.
    struct credential_watch *credential_watch;
    // Whose credential is this? With the client's address; valid during the call.
    void (*authenticate)(void *ctx, unsigned loop_index, const struct call_credential *credential, struct str remote,
                         call_authenticated done, void *arg);
    void *ctx;
    struct metric *in_flight; // gauge of open exchanges; NULL: they are counted elsewhere
    // The endpoint's own, both may be NULL: an exchange was answered; a question to authenticate()
    // that nobody waited for any more has been answered.
    void (*on_answered)(void *endpoint, int status, uint64_t took_us);
    void (*on_late_authentication)(void *endpoint);
    void *endpoint;
};

struct call_proxy {
    struct loop *loop;
    struct call_proxy_options options; // strings are its own
    struct trusted_proxies trusted;
    struct rate_limiter *webhooks; // by runtime
    uint64_t request_id_seed[2];
    struct arena *spare_arenas[CALL_PROXY_SPARE_ARENAS];
    size_t spare_arena_count;
    size_t exchanges;       // that are open
    size_t authentications; // questions that are not answered
    struct metric_family *cuts, *refused;
};

// options are copied, strings too. On an error there is nothing to finish.
MUST_CHECK enum error_code call_proxy_init(struct call_proxy *proxy, struct loop *loop,
                                           const struct call_proxy_options *options, struct error *err);
// Without exchanges and authentications. Zeroed is fine.
void call_proxy_finish(struct call_proxy *proxy);
// An empty arena, from before where there is one.
struct arena *call_proxy_take_arena(struct call_proxy *proxy);
void call_proxy_give_arena(struct call_proxy *proxy, struct arena *arena); // NULL is fine

#endif
