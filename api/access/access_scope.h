// access_scope: which rows of an entity type a principal may read, as a predicate over the columns
// that the type declares for it (storage/sql/reads.awk, "-- access:"). The planner adds it to every
// statement that reads the type, so that no module reads one without it. On the loop of its rules.
#ifndef CULVERT_API_ACCESS_ACCESS_SCOPE_H
#define CULVERT_API_ACCESS_ACCESS_SCOPE_H

#include "api/access/access_rules.h"
#include "api/access/principal.h"
#include "base/strbuf.h"

// Where an attribute that rules name stands in the rows of a type: cluster, git_source, namespace,
// runtime, product, labels (an object of texts). SQL.
struct access_attribute {
    const char *name, *column;
};

struct access_type {
    const char *name;                          // "application"
    const struct access_attribute *attributes; // end with a NULL name
    const char *ruled;                         // SQL: the rows that rules can be applied to; NULL: all
};

enum access_scope { ACCESS_ALL, ACCESS_NOTHING, ACCESS_EQUAL, ACCESS_RULES };

struct access_predicate {
    enum access_scope scope;
    const char *column; // ACCESS_EQUAL: column = value
    // Of the principal; ACCESS_RULES: of the parameter that access_predicate_write() names.
    struct str value;
    const struct access_set *set; // ACCESS_RULES, as long as the rules
    const struct access_type *type;
};

// Within the principal's account, which every statement is limited to by itself. rules: of the
// principal (api_auth_rules()). What rules ask for and the type has no column of: an allow does not
// apply, and with a deny nothing is read.
struct access_predicate access_predicate_of(const struct api_principal *principal, struct access_rules *rules,
                                            const struct access_type *type);

// ACCESS_RULES as a condition over the type's columns, without a WHERE; the value is $parameter.
// The text depends on which attributes the rules name, not on their values. parameter 0: for a key
// of plans.
void access_predicate_write(const struct access_predicate *predicate, unsigned parameter, struct strbuf *out);

// What tells predicates apart whose statements differ; values do not.
void access_predicate_add_key(const struct access_predicate *predicate, struct strbuf *key);
// The values, which tell apart what they find.
void access_predicate_add_values(const struct access_predicate *predicate, struct strbuf *key);

#endif
