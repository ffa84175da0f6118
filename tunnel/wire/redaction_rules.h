// redaction_rules: the table of open paths as a tree that is walked beside an object. Made once;
// immutable then; any thread. Arrays have no node of their own: the elements of an array have the
// node of the array.
#ifndef CULVERT_WIRE_REDACTION_RULES_H
#define CULVERT_WIRE_REDACTION_RULES_H

#include "tunnel/wire/redaction.h"
#include "tunnel/wire/redaction_value.h"

struct redaction_child;

struct redaction_node {
    enum redaction_type type;
    size_t child_count, prefix_count;
    struct redaction_child *children; // by exact key, sorted
    struct redaction_child *prefixes; // by how a key begins, longest first; the empty one takes the rest
};

struct redaction_child {
    struct str key;
    struct redaction_node *node;
};

struct redaction_rules;

MUST_CHECK enum error_code redaction_rules_create(const struct redaction_options *options, struct redaction_rules **out,
                                                  struct error *err);
void redaction_rules_destroy(struct redaction_rules *rules);

// Never NULL: of a kind that is not known, the node of those.
const struct redaction_node *redaction_rules_root(const struct redaction_rules *rules, struct str group,
                                                  struct str kind);
// NULL: nothing is open there.
const struct redaction_node *redaction_node_child(const struct redaction_node *node, struct str key);

// The table, in redaction_table.c. A text is a list of fields, with white space between:
//   a,b:type      their values have this type
//   a,b{...}      objects (or arrays of them) with these fields
//   a,b@shape     objects with the fields of that shape
//   @shape        the fields of that shape, here
// A key may have a dot or a slash in it; with `*` at its end it stands for all keys that begin so.
struct redaction_kind {
    const char *group, *name, *fields;
};
struct redaction_shape {
    const char *name, *fields;
};
extern const struct redaction_kind redaction_kinds[];   // an empty name ends
extern const struct redaction_shape redaction_shapes[]; // NULL ends
extern const char redaction_unknown_fields[];           // of kinds that are not listed

#endif
