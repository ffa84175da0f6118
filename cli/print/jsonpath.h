// jsonpath: templates as kubectl's -o jsonpath takes them: text with {expressions}. Fuzzed. Pure.
//   {.a.b} {['a.b']} {.list[0]} {.list[-1]} {.list[1:3]} {.list[*].name} {..name} {@}
//   {.list[?(@.a=="x")].b} with == != < <= > >=, or {.list[?(@.a)]}: where it is
//   {"text\n"} {range .items[*]}...{end}
// Source: kubernetes.io/docs/reference/kubectl/jsonpath.
#ifndef CULVERT_CLI_PRINT_JSONPATH_H
#define CULVERT_CLI_PRINT_JSONPATH_H

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"

enum { JSONPATH_TEMPLATE_BYTES_MAX = 16 * 1024, JSONPATH_VALUES_MAX = 1000000, JSONPATH_DEPTH_MAX = 16 };

// Appends what the template makes of the value. A path that leads nowhere gives nothing. Values of
// one expression are joined by a space. ERROR_INVALID names the place in the template.
MUST_CHECK enum error_code jsonpath_write(struct str template, const json_t *value, struct strbuf *out,
                                          struct error *err);
// The values of a path without braces (".metadata.name"): a new array.
MUST_CHECK enum error_code jsonpath_find(struct str path, const json_t *value, json_t **out, struct error *err);

#endif
