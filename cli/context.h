// context: which platform, as whom, and the defaults of runtime and namespace; kept by name in a
// file as kubectl keeps its own. JSON, mode 0600, replaced as a whole. One thread.
//
// $CULVERT_CLI_CONFIG, or $XDG_CONFIG_HOME/culvert/config.json, or ~/.config/culvert/config.json.
// Without --context, CULVERT_URL with CULVERT_API_KEY, CULVERT_CA and CULVERT_INGRESS_URL takes the
// place of the current context.
#ifndef CULVERT_CLI_CONTEXT_H
#define CULVERT_CLI_CONTEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

enum { CONTEXT_FILE_BYTES_MAX = 256 * 1024, CONTEXT_TOKEN_BYTES_MAX = 8 * 1024 };

// Views into the file's tree or the environment; NULL where not given.
struct context {
    const char *name;
    const char *url; // https://host:port; http for loopback addresses alone
    const char *token, *token_file;
    const char *ca_file; // NULL: the system's
    const char *runtime, *namespace;
    const char *ingress_url; // of the ingress listener: https://<tunnel.domain>[:port]; NULL: not known
};

struct context_file {
    char *path;   // owned
    json_t *tree; // {"current": NAME, "contexts": {NAME: {...}}}; never NULL after context_file_read
    char *token;  // read from a token_file; owned
};

// A missing file has no context. ERROR_INVALID names the file and what is wrong in it.
MUST_CHECK enum error_code context_file_read(struct context_file *out, struct error *err);
void context_file_finish(struct context_file *file);
// Writes beside it and renames; creates the folder with mode 0700.
MUST_CHECK enum error_code context_file_write(const struct context_file *file, struct error *err);

// The context called name (NULL: the current one) , or what the environment names.
// ERROR_INVALID: it does not exist or has no URL; the message names the cure.
MUST_CHECK enum error_code context_file_choose(struct context_file *file, const char *name, struct context *out,
                                               struct error *err);

#endif
