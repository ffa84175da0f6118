// event_body: what the event routes share: whose word it is (a runtime's token alone says that) and
// the body as plain JSON. On the request's loop.
#ifndef CULVERT_API_EVENTS_EVENT_BODY_H
#define CULVERT_API_EVENTS_EVENT_BODY_H

#include "api/http/request.h"
#include "base/strbuf.h"

// The body; when it came as gzip, inflated within events_bytes_max into *inflated, which is
// finished by who has read it. False: the request is answered (403 for other credentials, 415, 413,
// 400), and there is nothing to finish.
bool api_event_body(struct api_request *request, struct strbuf *inflated, struct str *out);

#endif
