// live: GraphQL subscriptions of one loop. A subscription follows a window: the objects that its
// argument `ids` names, as far as they match its filters and the caller may read them. The first
// event has all of them; when changes say that some may be others, the operation is executed again
// for those alone, at most every delay_ms, and what differs is sent. Everything is read again every
// refresh_ms, so that what no change announced (a change of another replica while Redis is away)
// is seen, too. docs/internals/live.md. Everything on its loop.
#ifndef CULVERT_API_LIVE_LIVE_H
#define CULVERT_API_LIVE_LIVE_H

#include "api/live/change.h"
#include "api/live/live_options.h"
#include "base/json/json.h"

struct api_request;
struct live;

struct live *live_create(const struct live_options *options);
// Ends all streams and takes no more; those whose statement is under way go when it has ended.
void live_stop(struct live *live);
void live_destroy(struct live *live); // after pg was closed; NULL is fine
size_t live_count(const struct live *live);

// What was committed, here or elsewhere.
void live_take_changes(struct live *live, const struct changes *changes);

// Answers a request that accepts text/event-stream (api/http/graphql_route.c): a subscription by a
// stream, another operation by its one result. Takes body.
void live_subscribe(struct live *live, struct api_request *request, json_t *body);

#endif
