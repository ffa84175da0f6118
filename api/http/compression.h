// compression: answers as their clients accept them. Fast levels: on the loops that answer, time is
// scarcer than bytes. Any thread.
#ifndef CULVERT_API_HTTP_COMPRESSION_H
#define CULVERT_API_HTTP_COMPRESSION_H

#include "api/http/negotiation.h"
#include "base/strbuf.h"

// Appends the compressed body. False: it does not become smaller, and out is as it was;
// CODING_IDENTITY never does.
bool compress_body(enum content_coding coding, struct str body, struct strbuf *out);
const char *content_coding_name(enum content_coding coding);

#endif
