// document: an executable GraphQL document as a tree (specification October 2021, section 2). Made
// by gql_parse, read-only afterwards; everything lives in the arena it was parsed into. Pure.
#ifndef CULVERT_API_GRAPHQL_DOCUMENT_H
#define CULVERT_API_GRAPHQL_DOCUMENT_H

#include "api/graphql/lexer.h"

enum gql_value_kind {
    GQL_VALUE_NULL,
    GQL_VALUE_BOOLEAN,
    GQL_VALUE_INT,
    GQL_VALUE_FLOAT,
    GQL_VALUE_STRING,
    GQL_VALUE_ENUM,
    GQL_VALUE_LIST,
    GQL_VALUE_OBJECT,
    GQL_VALUE_VARIABLE,
};

struct gql_value {
    enum gql_value_kind kind;
    struct gql_location at;
    struct str text; // numbers as written, strings resolved, names
    bool boolean;
    struct gql_value *items;     // LIST: first
    struct gql_argument *fields; // OBJECT: first
    struct gql_value *next;      // in a list
};

// name: value, of a field, a directive or an input object.
struct gql_argument {
    struct gql_argument *next;
    struct str name;
    struct gql_location at;
    struct gql_value value;
};

struct gql_directive {
    struct gql_directive *next;
    struct str name;
    struct gql_location at;
    struct gql_argument *arguments;
};

enum gql_selection_kind { GQL_FIELD, GQL_FRAGMENT_SPREAD, GQL_INLINE_FRAGMENT };

struct gql_selection {
    struct gql_selection *next;
    enum gql_selection_kind kind;
    struct gql_location at;
    struct str name;  // field or fragment
    struct str alias; // fields: the response key (the name when none is given)
    struct str type;  // inline fragments: the type condition, or empty
    struct gql_argument *arguments;
    struct gql_directive *directives;
    struct gql_selection *selections;
    const struct gql_fragment *fragment; // spreads: what they name; NULL when it is not in the document
};

// [Type!]! as written.
struct gql_type_ref {
    struct str name;           // of the named type, when not a list
    struct gql_type_ref *item; // of a list
    bool non_null;
};

struct gql_variable {
    struct gql_variable *next;
    struct str name;
    struct gql_location at;
    struct gql_type_ref type;
    bool has_default;
    struct gql_value def;
    struct gql_directive *directives;
};

enum gql_operation_kind { GQL_QUERY, GQL_MUTATION, GQL_SUBSCRIPTION };

struct gql_operation {
    struct gql_operation *next;
    enum gql_operation_kind kind;
    struct str name; // empty: anonymous
    struct gql_location at;
    struct gql_variable *variables;
    struct gql_directive *directives;
    struct gql_selection *selections;
};

struct gql_fragment {
    struct gql_fragment *next;
    struct str name, type;
    size_t index; // position in the document
    struct gql_location at;
    struct gql_directive *directives;
    struct gql_selection *selections;
};

struct gql_document {
    struct gql_operation *operations;
    struct gql_fragment *fragments;
    size_t fragment_count;
};

// Bounds that hold before anything runs.
struct gql_limits {
    size_t tokens_max;
    unsigned depth_max; // of selections and of values
    unsigned aliases_max, directives_max, root_fields_max;
    bool introspection_refused; // __schema and __type
};

// ERROR_INVALID: not GraphQL, the text says where; ERROR_TOO_LARGE: a limit.
MUST_CHECK enum error_code gql_parse(struct str source, const struct gql_limits *limits, struct arena *arena,
                                     struct gql_document *out, struct error *err);
// A type reference at the lexer's place; also used for the schema.
MUST_CHECK enum error_code gql_parse_type(struct gql_lexer *lexer, struct arena *arena, unsigned depth,
                                          struct gql_type_ref *out, struct error *err);
const struct gql_fragment *gql_document_fragment(const struct gql_document *document, struct str name);

#endif
