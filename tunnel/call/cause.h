// cause: why a call failed (enum tunnel_cause in broker.h), read from an agent's `culvert-cause` header. Pure.
#ifndef CULVERT_TUNNEL_CALL_CAUSE_H
#define CULVERT_TUNNEL_CALL_CAUSE_H

#include "tunnel/broker.h"

enum tunnel_cause tunnel_cause_parse(struct str name); // TUNNEL_CAUSE_NONE: not one an agent may give

#endif
