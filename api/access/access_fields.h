// access_fields: the root fields of GraphQL whose rows no predicate filters, and what a user has to
// be allowed on every entity of a type to use them. A field that is not here is not for users whom
// rules limit: what is new is closed until someone decides. Constant data; any thread.
#ifndef CULVERT_API_ACCESS_ACCESS_FIELDS_H
#define CULVERT_API_ACCESS_ACCESS_FIELDS_H

#include "api/access/access_rules.h"
#include "base/error.h"

// ERROR_FORBIDDEN: the rules limit the caller in what the field shows or changes.
MUST_CHECK enum error_code access_field_check(const char *field, struct access_rules *rules, struct error *err);

#endif
