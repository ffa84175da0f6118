// object_access: whether the caller may do something with one object, by the rules of its account.
// For mutations, which no predicate filters. On the loop of the request.
#ifndef CULVERT_API_OBJECT_ACCESS_H
#define CULVERT_API_OBJECT_ACCESS_H

#include "api/access/access_object_store.h"
#include "api/http/request.h"

// err NULL: it may. ERROR_NOT_FOUND: it may not see the application, or there is no such one;
// ERROR_FORBIDDEN: it may not do this. At once or later.
typedef void (*object_checked)(void *arg, const struct error *err);

// The subject is copied.
void object_access_check(struct api_request *request, const struct access_subject *subject, enum access_action action,
                         object_checked on_checked, void *arg);

#endif
