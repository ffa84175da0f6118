// openapi: the OpenAPI 3.1 document of the stored routes below /v1, made of their documents and the
// schema. Pure.
#ifndef CULVERT_API_REST_OPENAPI_H
#define CULVERT_API_REST_OPENAPI_H

#include "api/rest/stored_route.h"

// Sets routes->openapi. ERROR_INVALID: an answer that its document does not select.
MUST_CHECK enum error_code openapi_write(struct stored_routes *routes, const struct gql_schema *schema,
                                         struct error *err);

#endif
