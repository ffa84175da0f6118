// reference: how the command line names an object: TYPE [RUNTIME/][NAMESPACE/]NAME, or
// TYPE/[RUNTIME/][NAMESPACE/]NAME in one word. One thread.
#ifndef CULVERT_CLI_REFERENCE_H
#define CULVERT_CLI_REFERENCE_H

#include "base/str.h"
#include "cli/client.h"
#include "cli/noun.h"

struct reference {
    const struct noun *noun;
    struct str runtime, namespace, name; // empty: not given
};

// text without the type. ERROR_INVALID: too many parts for the noun, or an empty one.
MUST_CHECK enum error_code reference_parse(const struct noun *noun, const char *text, struct reference *out,
                                           struct error *err);
// The words of a command: "TYPE", "TYPE NAME...", "TYPE/NAME...". *out_noun is the type of all.
// names gets the references, up to max. defaults: runtime and namespace where the word has none.
MUST_CHECK enum error_code reference_words(const char *const *words, size_t count, const struct noun **out_noun,
                                           struct reference *out, size_t max, size_t *out_count, struct error *err);

bool reference_fits(const struct reference *reference, const json_t *row);

// The one object that it names (a new reference) with this selection. ERROR_NOT_FOUND: there is
// none. ERROR_INVALID: several have that name; the message lists the first of them.
MUST_CHECK enum error_code reference_read(const struct reference *reference, struct client *client,
                                          const char *selection, json_t **out, struct error *err);

#endif
