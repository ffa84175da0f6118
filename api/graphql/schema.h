// schema: the types that queries are checked against and answers are shaped by, read from SDL
// (modules/schema_sdl.h) at start. Immutable afterwards; any thread. Understood: scalar, enum,
// object (with interfaces), interface, union and input types, descriptions, default values of
// arguments and input fields, and of the directives @deprecated and @specifiedBy. The types of
// introspection (specification section 4) are in every schema.
#ifndef CULVERT_API_GRAPHQL_SCHEMA_H
#define CULVERT_API_GRAPHQL_SCHEMA_H

#include "api/graphql/document.h"

enum gql_type_kind { GQL_SCALAR, GQL_ENUM, GQL_OBJECT, GQL_INTERFACE, GQL_UNION, GQL_INPUT };

// What is stated of a definition beside its shape.
struct gql_notes {
    struct str description; // at NULL: none
    bool deprecated;
    struct str reason; // of the deprecation
};

// An argument or an input field.
struct gql_input_def {
    struct gql_input_def *next;
    struct str name;
    struct gql_notes notes;
    struct gql_type_ref type;
    bool has_default;
    struct gql_value def;
};

struct gql_field_def {
    struct gql_field_def *next;
    struct str name;
    struct gql_notes notes;
    struct gql_type_ref type;
    struct gql_input_def *arguments;
};

// A name in a list: an enum's value, a union's member, an implemented interface.
struct gql_name {
    struct gql_name *next;
    struct str name;
    struct gql_notes notes; // of an enum's value
};

struct gql_type {
    enum gql_type_kind kind;
    struct str name, description;
    struct str specified_by;       // of a scalar; at NULL: not stated
    struct gql_field_def *fields;  // objects and interfaces
    struct gql_input_def *inputs;  // input types
    struct gql_name *names;        // enum values, union members, an object's interfaces
    struct gql_type *next_in_slot; // hash chain
    struct gql_type *next;         // as they were defined
};

struct gql_schema;

// ERROR_INVALID: the SDL is wrong, or names a type that is not there.
struct gql_schema *gql_schema_create(struct str sdl, struct error *err);
void gql_schema_destroy(struct gql_schema *schema);

const struct gql_type *gql_schema_type(const struct gql_schema *schema, struct str name); // NULL: unknown
const struct gql_type *gql_schema_root(const struct gql_schema *schema, enum gql_operation_kind kind);
const struct gql_type *gql_schema_first(const struct gql_schema *schema); // then gql_type.next
const struct gql_field_def *gql_type_field(const struct gql_type *type, struct str name);
// Also __schema and __type, which the query's root type has beside its own.
const struct gql_field_def *gql_schema_field(const struct gql_schema *schema, const struct gql_type *type,
                                             struct str name);
// The arguments of @skip and @include: `if`.
const struct gql_input_def *gql_condition_argument(void);
const struct gql_input_def *gql_input_find(const struct gql_input_def *first, struct str name);
bool gql_type_has_name(const struct gql_type *type, struct str name);
bool gql_type_is_leaf(const struct gql_type *type);      // scalar or enum
bool gql_type_is_composite(const struct gql_type *type); // has selections
bool gql_type_is_input(const struct gql_type *type);
// Can an object of concrete type be where `type` is asked for?
bool gql_type_covers(const struct gql_type *type, const struct gql_type *concrete);
// Is there an object that can be both? (Specification section 5.5.2.3.)
bool gql_schema_types_meet(const struct gql_schema *schema, const struct gql_type *a, const struct gql_type *b);
// The innermost named type.
struct str gql_type_ref_name(const struct gql_type_ref *ref);
// As written: "[Type!]!". In the arena.
const char *gql_type_ref_text(const struct gql_type_ref *ref, struct arena *arena);

#endif
