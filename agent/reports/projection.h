// projection: the part of an object that is worth telling. What the API server and controllers rewrite without
// meaning (managedFields, resourceVersion, reconciledAt, leases in annotations) is dropped, so that an object whose
// hash is the same has not changed for anybody who looks at it. Pure; any thread.
#ifndef CULVERT_AGENT_PROJECTION_H
#define CULVERT_AGENT_PROJECTION_H

#include <jansson.h>

// Changes object in place.
void projection_apply(json_t *object);

#endif
