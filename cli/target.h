// target: the objects that the words of a command name, with the defaults of options and context.
// One thread.
#ifndef CULVERT_CLI_TARGET_H
#define CULVERT_CLI_TARGET_H

#include "cli/command.h"
#include "cli/reference.h"

enum { TARGETS_MAX = 200, SELECTION_BYTES_MAX = 16 * 1024, POLL_MS = 300 };

// The runtime and namespace of -r and -n, and the context's unless -A is given.
void target_set_defaults(const struct invocation *invocation, struct reference *reference);

// A word without a type is of `kind` ("application"); at least one is needed.
MUST_CHECK enum error_code target_words(const struct invocation *invocation, const char *kind, struct reference *out,
                                        size_t *out_count, struct error *err);
// The one object of the only word.
MUST_CHECK enum error_code target_one(const struct invocation *invocation, const char *kind, struct reference *out,
                                      struct error *err);
// Its runtime, namespace and name, from the platform: new texts in an object with these members.
MUST_CHECK enum error_code target_place(const struct invocation *invocation, const struct reference *reference,
                                        json_t **out, struct error *err);

// The place of a word that is one of `types` (joined by commas, the first is the default): as above,
// and of a workload or pod, which is no noun, with its group and kind too.
MUST_CHECK enum error_code target_object(const struct invocation *invocation, const char *verb, const char *types,
                                         const char *word, json_t **out, struct error *err);

void target_sleep(uint64_t ms);

#endif
