#include "tunnel/call/cause.h"

#include <stddef.h>

static const struct cause_row {
    const char *name;
    int status;
} cause_rows[] = {
    [TUNNEL_CAUSE_NONE] = {"none", 200},
    [TUNNEL_CAUSE_NO_TUNNEL] = {"no-tunnel", 503},
    [TUNNEL_CAUSE_OVERLOADED] = {"overloaded", 503},
    [TUNNEL_CAUSE_TUNNEL_LOST] = {"tunnel-lost", 502},
    [TUNNEL_CAUSE_DIAL_FAILED] = {"dial-failed", 502},
    [TUNNEL_CAUSE_NOT_ALLOWED] = {"not-allowed", 403},
    [TUNNEL_CAUSE_NO_ROUTE] = {"no-route", 404},
    [TUNNEL_CAUSE_HEAD_TIMEOUT] = {"head-timeout", 504},
    [TUNNEL_CAUSE_STALLED] = {"stalled", 504},
    [TUNNEL_CAUSE_UPSTREAM_FAILED] = {"upstream-failed", 502},
    [TUNNEL_CAUSE_CANCELLED] = {"cancelled", 499},
};

enum { CAUSE_ROWS = sizeof(cause_rows) / sizeof(cause_rows[0]) };

const char *tunnel_cause_name(enum tunnel_cause cause)
{
    return (size_t)cause < CAUSE_ROWS ? cause_rows[cause].name : "unknown";
}

int tunnel_cause_status(enum tunnel_cause cause)
{
    return (size_t)cause < CAUSE_ROWS ? cause_rows[cause].status : 500;
}

enum tunnel_cause tunnel_cause_parse(struct str name)
{
    // Only what an agent can know of; the others are the platform's to say.
    static const enum tunnel_cause causes[] = {TUNNEL_CAUSE_DIAL_FAILED, TUNNEL_CAUSE_NOT_ALLOWED,
                                               TUNNEL_CAUSE_NO_ROUTE,    TUNNEL_CAUSE_HEAD_TIMEOUT,
                                               TUNNEL_CAUSE_OVERLOADED,  TUNNEL_CAUSE_UPSTREAM_FAILED};
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (str_eq(name, str_c(cause_rows[causes[i]].name))) return causes[i];
    return TUNNEL_CAUSE_NONE;
}
