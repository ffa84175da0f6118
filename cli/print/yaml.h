// yaml: a JSON value as YAML 1.2 in block style. Pure; any thread.
#ifndef CULVERT_CLI_PRINT_YAML_H
#define CULVERT_CLI_PRINT_YAML_H

#include <jansson.h>

#include "base/strbuf.h"

// indent: spaces before each line. is_brief: members that are null or empty are left out.
void yaml_write(const json_t *value, int indent, bool is_brief, struct strbuf *out);

#endif
