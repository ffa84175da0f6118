#include "server/intake/http_group.h"

#include <stdio.h>

#include "base/mem.h"

struct http_group {
    size_t left, refused;
    struct error err; // of the first that failed
    char detail[256];
    http_group_done on_done;
    void *arg;
};

static void group_end(struct http_group *group)
{
    if (--group->left > 0) return;
    group->on_done(group->arg, group->err.code != ERROR_NONE ? &group->err : NULL, group->refused, group->detail);
    mem_free(group);
}

static void on_http_done(void *arg, const struct error *err, const struct report *report,
                         const struct report_outcome *outcome)
{
    (void)report;
    struct http_group *group = arg;
    if (err && group->err.code == ERROR_NONE) group->err = *err;
    if (!err && outcome->result == REPORT_OVER_QUOTA && group->err.code == ERROR_NONE)
        error_set(&group->err, ERROR_LIMITED, "%s", outcome->detail);
    if (!err && outcome->result == REPORT_REFUSED && group->refused++ == 0)
        snprintf(group->detail, sizeof group->detail, "%s", outcome->detail ? outcome->detail : "");
    group_end(group);
}

void http_group_submit(struct bus *bus, const struct report *reports, size_t count, http_group_done on_done, void *arg)
{
    struct http_group *group = mem_zalloc(sizeof *group);
    *group = (struct http_group){.left = count + 1, .on_done = on_done, .arg = arg};
    for (size_t i = 0; i < count; i++) {
        struct error err;
        if (bus_submit(bus, &reports[i], false, on_http_done, group, &err) == ERROR_NONE) continue;
        if (group->err.code == ERROR_NONE) group->err = err;
        group->left--;
    }
    group_end(group);
}
