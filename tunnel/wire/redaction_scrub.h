// redaction_scrub: takes credentials out of texts that people and programs wrote: users, passwords
// and queries of URLs, bearer tokens, JWTs, tokens of known makers (AWS, GitHub, GitLab, Slack,
// Google and others), private keys, `password=x`, `--password x`, `--set x=y`, values that an API
// server quotes because it refuses them, and manifests inside a text. What is masked becomes "***".
// It knows what it knows: a text is open only where the table lists it. Pure; any thread.
#ifndef CULVERT_WIRE_REDACTION_SCRUB_H
#define CULVERT_WIRE_REDACTION_SCRUB_H

#include <stdbool.h>

#include "base/str.h"
#include "base/strbuf.h"

// Appends text as it may leave; out's own maximum holds (a text grows by less than half).
void redaction_scrub(struct str text, struct strbuf *out);
// The same where it changes something: else out stays as it is, and the answer is false.
bool redaction_scrub_if(struct str text, struct strbuf *out);

#endif
