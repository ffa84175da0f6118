// redaction_key: the key of this cluster's digests (tunnel/wire/redaction.h), which never leaves the cluster. It is
// kept in a file, so that digests stay the same when the agent is restarted.
#ifndef CULVERT_AGENT_REDACTION_KEY_H
#define CULVERT_AGENT_REDACTION_KEY_H

#include <stdint.h>

#include "tunnel/wire/redaction.h"

// folder: where the key is kept (`redaction.key`, mode 0600, made when absent); "" or NULL: a key of this process.
// ERROR_INVALID or ERROR_IO when the file cannot be read, made or trusted. Blocking file access: at start.
MUST_CHECK enum error_code redaction_key_load(const char *folder, uint8_t out[REDACTION_KEY_BYTES], struct error *err);

#endif
