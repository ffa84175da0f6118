// explain: `culvert-agent --explain-redaction FILE`: what of a manifest would leave the cluster with these settings, a
// line each value, and what stays. Blocking; for the command line.
#ifndef CULVERT_AGENT_EXPLAIN_H
#define CULVERT_AGENT_EXPLAIN_H

#include "base/error.h"
#include "base/strbuf.h"
#include "tunnel/wire/redaction.h"

enum { EXPLAIN_BYTES_MAX = 10 * 1024 * 1024 };

// text: one object of the Kubernetes API as JSON or YAML, or several as a List (their kinds' rules, one after the
// other). Digests are made with a key of this call, so that they cannot be compared with those that the agent reports.
MUST_CHECK enum error_code explain_redaction(struct str text, const struct redaction_options *options,
                                             struct strbuf *out, struct error *err);
// The same of a file, "-": standard input.
MUST_CHECK enum error_code explain_redaction_file(const char *path, const struct redaction_options *options,
                                                  struct strbuf *out, struct error *err);

#endif
