// command: what a verb gets and gives. A verb returns an enum exit_status; it has printed why it
// failed. One thread.
#ifndef CULVERT_CLI_COMMAND_H
#define CULVERT_CLI_COMMAND_H

#include <stdint.h>

#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_status.h"
#include "cli/noun.h"

struct invocation {
    const struct arguments *arguments;
    const char *const *words; // behind the verb
    size_t word_count;
    const struct operation_verb *operation; // of a verb that runs an operation
    struct context_file file;
    struct context context;
    struct client *client; // NULL where the verb needs none
};

struct command {
    const char *name; // NULL: the end of the table
    const char *usage, *help;
    const struct option_spec *options; // NULL: none of its own
    bool needs_platform;
    int (*run)(struct invocation *invocation);
};

extern const struct command commands[];
extern const struct option_spec common_options[];

const struct command *command_find(const char *name);
const struct operation_verb *command_find_operation(const char *name);

// Prints "error: ..." and returns the status of the error.
int command_fail(const struct error *err);
// A duration such as 30s of the option, or def_ms.
MUST_CHECK enum error_code command_duration(const struct invocation *invocation, const char *option, uint64_t def_ms,
                                            uint64_t *out_ms, struct error *err);
// A whole number of the option, or def.
MUST_CHECK enum error_code command_number(const struct invocation *invocation, const char *option, uint64_t max,
                                          uint64_t def, uint64_t *out, struct error *err);

// The verbs; cli/verbs/<file>.c each.
int verb_get(struct invocation *invocation);
int verb_describe(struct invocation *invocation);
int verb_wait(struct invocation *invocation);
int verb_tree(struct invocation *invocation);
int verb_history(struct invocation *invocation);
int verb_logs(struct invocation *invocation);
int verb_operate(struct invocation *invocation);
int verb_runtime(struct invocation *invocation);
int verb_enrollment(struct invocation *invocation);
int verb_port_forward(struct invocation *invocation);
int verb_support_bundle(struct invocation *invocation);
int verb_tunnel(struct invocation *invocation);
int verb_auth(struct invocation *invocation);
int verb_rule(struct invocation *invocation);
int verb_login(struct invocation *invocation);
int verb_logout(struct invocation *invocation);
int verb_context(struct invocation *invocation);
int verb_completion(struct invocation *invocation);
int verb_complete(struct invocation *invocation);
int verb_help(struct invocation *invocation);
int verb_version(struct invocation *invocation);

extern const struct option_spec logs_options[], get_options[], wait_options[], operate_options[], runtime_options[],
    enrollment_options[], login_options[], logout_options[], port_forward_options[], auth_options[], rule_options[],
    support_bundle_options[];

#endif
