// request_rates: how many requests a second the users of an account, and each of them, may make at
// this replica. A request counts 1, and 1 more for each 1,000 rows that its queries may read
// (graphql.cost_max), so that few large ones do not pass for little. Reports have shares of their
// own. One for the process; thread-safe.
#ifndef CULVERT_API_ACCESS_REQUEST_RATES_H
#define CULVERT_API_ACCESS_REQUEST_RATES_H

#include "api/access/principal.h"
#include "base/error.h"

struct request_rates;

// 0: no limit.
struct request_rates *request_rates_create(uint64_t per_account, uint64_t per_user);
void request_rates_destroy(struct request_rates *rates); // NULL is fine

// now_ms: monotonic. ERROR_LIMITED: which limit; *retry_after_s is when it will do.
MUST_CHECK enum error_code request_rates_take(struct request_rates *rates, const struct api_principal *who,
                                              uint64_t now_ms, unsigned *retry_after_s, struct error *err);
void request_rates_charge(struct request_rates *rates, const struct api_principal *who, uint64_t cost, uint64_t now_ms);

#endif
