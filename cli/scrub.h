// scrub: takes what may be a secret out of texts that leave the machine: passwords in URLs, values
// that a word such as "token" announces, private keys in PEM, JSON Web Tokens, and given secrets.
// It takes too much rather than too little. Pure; any thread.
#ifndef CULVERT_CLI_SCRUB_H
#define CULVERT_CLI_SCRUB_H

#include <jansson.h>

#include "base/str.h"
#include "base/strbuf.h"

#define SCRUBBED "(removed)"

// known: taken out wherever it is; may be empty.
void scrub_text(struct str text, struct str known, struct strbuf *out);
// Whether the value of a member or setting of this name is a secret: "database.url".
bool scrub_is_secret_name(struct str name);
// A copy of the tree without secrets; strings alone are changed. The caller owns it.
json_t *scrub_json(const json_t *tree, struct str known);

#endif
