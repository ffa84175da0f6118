#include "api/access/access_scope.h"

// Users read everything of their account; a runtime reads what is its own, and nothing of types
// without a runtime.
struct access_predicate access_predicate_of(const struct api_principal *principal, const struct access_type *type)
{
    if (principal->kind == PRINCIPAL_USER) return (struct access_predicate){.scope = ACCESS_ALL};
    if (principal->kind == PRINCIPAL_RUNTIME)
        for (const struct access_attribute *attribute = type->attributes; attribute->name; attribute++)
            if (strcmp(attribute->name, "runtime") == 0)
                return (struct access_predicate){ACCESS_EQUAL, attribute->column, str_c(principal->runtime)};
    return (struct access_predicate){.scope = ACCESS_NOTHING};
}
