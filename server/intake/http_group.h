// http_group: the reports of one HTTP request on their way through the bus. It is answered once, when all of them are
// durable, or with the error of the first that failed. One loop's.
#ifndef CULVERT_SERVER_INTAKE_HTTP_GROUP_H
#define CULVERT_SERVER_INTAKE_HTTP_GROUP_H

#include "server/bus/bus.h"

// err: of the first that failed; NULL: all are durable. refused: how many were kept out, with the reason of the first
// in detail (valid during the call).
typedef void (*http_group_done)(void *arg, const struct error *err, size_t refused, const char *detail);
// on_done may run inside.
void http_group_submit(struct bus *bus, const struct report *reports, size_t count, http_group_done on_done, void *arg);

#endif
