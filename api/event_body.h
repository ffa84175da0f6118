// event_body: what the event routes share: whose word it is (a runtime's token alone says that) and the body as plain
// JSON. On the request's loop.
#ifndef CULVERT_API_EVENT_BODY_H
#define CULVERT_API_EVENT_BODY_H

#include "api/request.h"

// The body, inflated within events_bytes_max when it came as gzip, in the request's arena. False: the request is
// answered (403 for other credentials, 415, 413, 400).
bool api_event_body(struct api_request *request, struct str *out);

#endif
