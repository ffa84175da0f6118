// proxy_exclude: which hosts are reached without the proxy: NO_PROXY as it is commonly read. A
// list, separated by commas or spaces, of: "*" (everything), a host name (which covers the names
// below it; a leading "." or "*." means the same), an address, a network "10.0.0.0/8" or
// "fd00::/8", each with an optional ":port". Names are compared without case. Nothing is resolved:
// a name is never in a network. Pure; any thread.
#ifndef CULVERT_AGENT_PROXY_EXCLUDE_H
#define CULVERT_AGENT_PROXY_EXCLUDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

// host: a name or an address, without brackets. Entries that make no sense match nothing.
bool proxy_exclude_matches(struct str list, struct str host, uint16_t port);

#endif
