// application_notes: what the agent adds to the redacted manifest of an Application, as
// annotations: what is known of its commits, and that its resources are not read. An annotation
// of these names in the cluster is not taken for it: redaction has digested its value. Pure
// functions; any thread.
#ifndef CULVERT_AGENT_APPLICATION_NOTES_H
#define CULVERT_AGENT_APPLICATION_NOTES_H

#include <jansson.h>

#include "base/strbuf.h"

// {"message", "suggestion"}: why the resources of an Application are not read (any more), and what
// would change that. The caller's (json_decref).
json_t *application_notes_unread(const char *message, const char *suggestion);

// Into text, an Application as JSON. commits: argo_commits_of(); unread: of the function above;
// each may be NULL. Unchanged where text is no object, or would not hold it. Borrowed.
void application_notes_add(struct strbuf *text, const json_t *commits, const json_t *unread);

#endif
