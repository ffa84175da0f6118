// connect_proxy: what is sent to an HTTP CONNECT proxy and what it may answer (RFC 9110 section
// 9.3.6). Pure: bytes in, bytes out; any thread.
#ifndef CULVERT_AGENT_CONNECT_PROXY_H
#define CULVERT_AGENT_CONNECT_PROXY_H

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum { CONNECT_PROXY_HEAD_BYTES_MAX = 16 * 1024, CONNECT_PROXY_CREDENTIAL_BYTES_MAX = 256 };

// authority: host:port. credential: "user:password", a secret, or empty.
MUST_CHECK enum error_code connect_proxy_request(struct str authority, struct str credential, struct strbuf *out,
                                                 struct error *err);
// at..len: all that has arrived. ERROR_AGAIN: incomplete. Whatever else is not 2xx and nothing
// behind it: the reason.
MUST_CHECK enum error_code connect_proxy_answer(const char *at, size_t len, struct error *err);

#endif
