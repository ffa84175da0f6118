// permission: what a principal may do at all, by its role and the scopes of its key. The one place
// that decides this; what a field or a route asks for stands in its table (api/resolvers.h,
// api/http/route.h). Pure; any thread.
//
//              read  write  call  administer  own
//   admin       x      x     x        x        x
//   member      x      x     x                 x
//   read-only   x                              x
//   runtime     x      x        (of its own; api_admit() says which fields)
//
// A key with scopes may do what both its user and its scopes permit; a session that was opened with
// it, too. own is about the user's own sessions and keys and takes a credential without scopes, so
// that no key makes one that may do more.
#ifndef CULVERT_API_ACCESS_PERMISSION_H
#define CULVERT_API_ACCESS_PERMISSION_H

#include "api/access/principal.h"
#include "api/access/scope.h"

// ERROR_FORBIDDEN: what needs more than the principal has. what: name of the field or route.
MUST_CHECK enum error_code permission_check(const struct api_principal *who, enum permission needed, const char *what,
                                            struct error *err);

#endif
