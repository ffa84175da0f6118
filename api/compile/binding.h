// binding: how the types of the schema are bound to rows. Tables made at build from the
// declarations in modules/<noun>/<noun>.sql by storage/sql/reads.awk, which explains them;
// constant, any thread.
#ifndef CULVERT_API_COMPILE_BINDING_H
#define CULVERT_API_COMPILE_BINDING_H

#include "api/access/access_scope.h"

// What a column gives and how it is written.
enum bound_kind {
    BOUND_TEXT,
    BOUND_ENUM, // refused unless the schema's enum has it
    BOUND_INT,
    BOUND_FLOAT,
    BOUND_BOOLEAN,
    BOUND_TIME,     // timestamptz
    BOUND_PAIRS,    // an object of texts as [StringPair]
    BOUND_JSON,     // in the shape of the field's type, projected
    BOUND_MANIFEST, // "ENCODING BYTES HEX" of a stored manifest, written as its text
    BOUND_CONSTANT, // no column: sql is JSON
};

// Arrays end with a NULL in their first member.
struct bound_field {
    const char *path; // in the type: metadata.labels
    const char *sql;
    enum bound_kind kind;
    unsigned joins;   // bit i: needs joins[i]
    const char *only; // the query that it is for; NULL: all others
};

// An object inside of the type that is null where its condition does not hold.
struct bound_object {
    const char *path, *sql;
    unsigned joins;
};

struct bound_join {
    const char *name, *query, *on;
};

struct binding {
    const char *type;
    const char *from, *alias;
    const char *key;   // its columns
    const char *group; // columns that rows are grouped by, fields being aggregates; NULL: they are not
    const char *scope; // names :account_id
    struct access_type access;
    const struct bound_field *fields;
    const struct bound_object *objects;
    const struct bound_join *joins;
};

enum bound_value {
    BOUND_VALUE_TEXT,
    BOUND_VALUE_TEXTS,
    BOUND_VALUE_BOOLEAN,
    BOUND_VALUE_NUMBER,
    BOUND_VALUE_TIME,
    BOUND_VALUE_REFUSED, // an error when it is given
};

// A filter of a list or an argument of a single row.
struct bound_input {
    const char *name;
    enum bound_value type;
    const char *sql;      // names :value; BOUND_VALUE_REFUSED: the reason
    const char *fallback; // the value where none is given; NULL: then it is no condition
    bool is_needed;       // without a value nothing is found
    // Rows that are found, too, when the value is among those of a list; NULL: none.
    const char *also_value, *also_sql;
    // A query over :value and :limit that gives the keys of the rows that the condition holds for,
    // from an index that row-level security keeps from sql; NULL: there is none.
    const char *found;
};

struct bound_key {
    const char *sql;
    bool is_down;
};

struct bound_order {
    const char *name;
    const struct bound_key *keys;
    size_t key_count;
    const char *label; // of fences; NULL: the first key
};

// A root field of Query.
struct bound_query {
    const char *field;
    const struct binding *binding;
    const struct bound_input *inputs;
    const struct bound_order *orders; // the first is the default
    bool is_list;                     // gives a slice; else the first row or null
    unsigned page_rows;               // of a list, where `first` is not given
};

// A dimension that rows are counted by.
struct bound_facet {
    const char *name, *sql;
    const char *const *own; // the filters that choose by it; end with NULL
};

// A root field of Query that counts the rows of a list.
struct bound_count {
    const char *field;
    const struct bound_query *query;
    const struct bound_facet *facets; // NULL: total and fences
};

#endif
