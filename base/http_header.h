// http_header: one field of an HTTP head or trailer section, whatever version or hop it belongs to:
// views of its name and its value, never owned here. Heads as they arrive over HTTP/1.1 keep the
// name as sent, so names are compared without case; HTTP/2 and the tunnel have lower case only
// (RFC 9113 section 8.2). A value has no white space around it.
#ifndef CULVERT_BASE_HTTP_HEADER_H
#define CULVERT_BASE_HTTP_HEADER_H

#include "base/str.h"

struct http_header {
    struct str name, value;
};

#endif
