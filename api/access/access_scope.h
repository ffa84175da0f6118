// access_scope: which rows of an entity type a principal may read, as a predicate over the columns
// that the type declares for it (storage/sql/reads.awk, "-- access:"). The planner adds it to every
// statement that reads the type, so that no module reads one without it. Pure; any thread.
#ifndef CULVERT_API_ACCESS_ACCESS_SCOPE_H
#define CULVERT_API_ACCESS_ACCESS_SCOPE_H

#include "api/access/principal.h"
#include "base/str.h"

// Where an attribute that rules name stands in the rows of a type.
struct access_attribute {
    const char *name, *column;
};

struct access_type {
    const char *name;                          // "application"
    const struct access_attribute *attributes; // end with a NULL name
};

enum access_scope { ACCESS_ALL, ACCESS_NOTHING, ACCESS_EQUAL };

struct access_predicate {
    enum access_scope scope;
    const char *column; // ACCESS_EQUAL: column = value
    struct str value;   // of the principal
};

// Within the principal's account, which every statement is limited to by itself.
struct access_predicate access_predicate_of(const struct api_principal *principal, const struct access_type *type);

#endif
