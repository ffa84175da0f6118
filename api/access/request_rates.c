#include "api/access/request_rates.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/rate_limiter.h"

enum { COST_OF_ONE = 1000, NAME_BYTES = 2 * 64 + 1, BURST_SECONDS = 10 };

struct request_rates {
    struct rate_limiter *accounts, *users; // NULL: no limit
};

struct request_rates *request_rates_create(uint64_t per_account, uint64_t per_user)
{
    struct request_rates *rates = mem_zalloc(sizeof *rates);
    if (per_account) rates->accounts = rate_limiter_create(per_account, BURST_SECONDS);
    if (per_user) rates->users = rate_limiter_create(per_user, BURST_SECONDS);
    return rates;
}

void request_rates_destroy(struct request_rates *rates)
{
    if (!rates) return;
    rate_limiter_destroy(rates->accounts);
    rate_limiter_destroy(rates->users);
    mem_free(rates);
}

// A user may be in several accounts; a runtime asks in its own name.
static struct str user_name(const struct api_principal *who, char out[NAME_BYTES])
{
    int len = snprintf(out, NAME_BYTES, "%s %s", who->account_id, who->user_id[0] ? who->user_id : who->runtime_id);
    return str_of(out, (size_t)len);
}

static enum error_code refuse(const char *scope, const char *setting, uint64_t wait_ms, unsigned *retry_after_s,
                              struct error *err)
{
    metric_add(metric_with(metrics_counter("culvert_api_requests_limited_total",
                                           "Requests over a limit of requests a second.", "scope", NULL),
                           scope),
               1);
    *retry_after_s = (unsigned)((wait_ms + 999) / 1000);
    return error_set(err, ERROR_LIMITED, "too many requests of this %s (%s)", scope, setting);
}

enum error_code request_rates_take(struct request_rates *rates, const struct api_principal *who, uint64_t now_ms,
                                   unsigned *retry_after_s, struct error *err)
{
    char name[NAME_BYTES];
    // The user first, so that one who asks too much takes nothing from the others of the account.
    uint64_t wait_ms = rates->users ? rate_limiter_take(rates->users, user_name(who, name), now_ms) : 0;
    if (wait_ms) return refuse("user", "api.user_requests_per_second", wait_ms, retry_after_s, err);
    wait_ms = rates->accounts ? rate_limiter_take(rates->accounts, str_c(who->account_id), now_ms) : 0;
    if (wait_ms) return refuse("account", "api.account_requests_per_second", wait_ms, retry_after_s, err);
    return ERROR_NONE;
}

void request_rates_charge(struct request_rates *rates, const struct api_principal *who, uint64_t cost, uint64_t now_ms)
{
    char name[NAME_BYTES];
    uint64_t more = cost / COST_OF_ONE;
    if (more && rates->users) rate_limiter_charge(rates->users, user_name(who, name), more, now_ms);
    if (more && rates->accounts) rate_limiter_charge(rates->accounts, str_c(who->account_id), more, now_ms);
}
