// filter_options: --runtime, --health, ...: the filters that nouns declare, as options. Constant
// after the first call; one thread.
#ifndef CULVERT_CLI_FILTER_OPTIONS_H
#define CULVERT_CLI_FILTER_OPTIONS_H

#include "cli/arguments.h"
#include "cli/query.h"

// Each once, whatever nouns have it.
const struct option_spec *filter_options(void);

// Sets what the arguments give: filters by their options, --field-selector, -l, and the defaults of
// the context unless -A is given. ERROR_INVALID: the noun does not have that filter.
struct context;
MUST_CHECK enum error_code filter_options_apply(const struct arguments *arguments, const struct context *context,
                                                struct query *query, struct error *err);

#endif
