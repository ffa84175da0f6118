// header_filter: which headers pass between a tunnelled call and a service. The caller's credential ended at the
// platform; what speaks of identity, of the hop or of the tunnel itself goes no further, whoever wrote it. Pure; any
// thread.
#ifndef CULVERT_AGENT_HEADER_FILTER_H
#define CULVERT_AGENT_HEADER_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/http1/http1.h"

// Request headers for the service: without hop-by-hop fields (RFC 9110 section 7.6.1) and those that Connection names,
// framing, Host, credentials, impersonation and the identity headers of authenticating proxies, names with `_` (which
// CGI-like servers confuse with `-`), and culvert-*. A webhook keeps Authorization: it is the sender's word to the
// event source. out has HTTP1_HEADERS_MAX entries; views into the input. Returns how many.
size_t header_filter_request(const struct http_header *headers, size_t count, bool webhook, struct http_header *out);

// Trailers of a request: besides, nothing that frames, routes, controls or authenticates (RFC 9110 section 6.5.1).
size_t header_filter_request_trailers(const struct http_header *trailers, size_t count, struct http_header *out);

// The same for a service's answer (head or trailers): without hop-by-hop fields, those that Connection names, and
// culvert-*, which only the agent may say.
size_t header_filter_answer(const struct http_header *headers, size_t count, bool trailers, struct http_header *out);

#endif
