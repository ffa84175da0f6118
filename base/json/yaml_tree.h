// yaml_tree: YAML as a JSON tree. Aliases, tags and duplicate keys are refused; depth, nodes and
// bytes are bounded. Pure; any thread. The one user of libyaml.
#ifndef CULVERT_BASE_JSON_YAML_TREE_H
#define CULVERT_BASE_JSON_YAML_TREE_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

enum { YAML_TREE_DEPTH_MAX = 32, YAML_TREE_NODES_MAX = 100000 };

// One document, a mapping or sequence at the top; all scalars are strings, which is enough for
// configuration files. The caller owns *out. Errors name the line, never the content.
MUST_CHECK enum error_code yaml_tree_decode(struct str text, size_t bytes_max, json_t **out, struct error *err);
// The same with scalars as YAML 1.2's core schema types them (null, true, 12, 1.5; what is quoted
// is a string), as manifests need it.
MUST_CHECK enum error_code yaml_tree_decode_typed(struct str text, size_t bytes_max, json_t **out, struct error *err);

#endif
