// secret_file: a file that holds one secret and nothing else, read without a copy left in stdio's buffers. Any thread.
#ifndef CULVERT_AGENT_SECRET_FILE_H
#define CULVERT_AGENT_SECRET_FILE_H

#include "base/error.h"
#include "base/str.h"

// Reads at most cap bytes into `buffer`, which the caller wipes; *out is the text without white space around it.
// ERROR_NOT_FOUND: it cannot be read; ERROR_TOO_LARGE: there is more.
MUST_CHECK enum error_code secret_file_read(const char *path, char *buffer, size_t cap, struct str *out,
                                            struct error *err);

#endif
