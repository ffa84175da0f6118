// runtime_token_file: the file of a runtime token that the agent makes by itself before it enrolls.
// It is there, whole and on disk, before the platform learns of the token, so that an agent that
// ends at any moment goes on with the same one, and so do several that share the folder. Any
// thread.
#ifndef CULVERT_AGENT_TUNNEL_RUNTIME_TOKEN_FILE_H
#define CULVERT_AGENT_TUNNEL_RUNTIME_TOKEN_FILE_H

#include "base/error.h"

// Does nothing where path exists. ERROR_IO: it cannot be written.
MUST_CHECK enum error_code runtime_token_file_make(const char *path, struct error *err);

#endif
