// enrollment: makes and revokes tokens with which agents create their own runtimes; `culvert get
// enrollments` lists them.
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/row.h"
#include "cli/secret_output.h"

// clang-format off
const struct option_spec enrollment_options[] = {
    {"token-file", 0, "FILE", "create: where the token is written (mode 0600); the default is stdout"},
    {"expires-in", 0, "DURATION", "create: the token is valid for so long; 24h by default"},
    {"uses", 0, "NUMBER", "create: so many runtimes may be created with it; 1 by default"},
    {"names", 0, "PATTERN", "create: only runtimes with such names, with * for any characters"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

enum { USES_MAX = 10000, LIFE_MS = 24 * 3600 * 1000 };

static enum error_code create(const struct invocation *invocation, const char *name, struct error *err)
{
    const char *path = arguments_get(invocation->arguments, "token-file"),
               *names = arguments_get(invocation->arguments, "names");
    uint64_t life_ms, uses;
    json_t *data = NULL;
    enum error_code code = secret_output_check(path, err);
    if (code == ERROR_NONE) code = command_duration(invocation, "expires-in", LIFE_MS, &life_ms, err);
    if (code == ERROR_NONE) code = command_number(invocation, "uses", USES_MAX, 1, &uses, err);
    if (code != ERROR_NONE) return code;
    code = client_query(invocation->client,
                        "mutation($name: String!, $expiresInSeconds: Int, $usesMax: Int, $namePattern: String) { "
                        "createEnrollmentToken(name: $name, expiresInSeconds: $expiresInSeconds, usesMax: $usesMax, "
                        "namePattern: $namePattern) { token enrollmentToken { id } } }",
                        json_pack("{s:s, s:I, s:I, s:s?}", "name", name, "expiresInSeconds",
                                  (json_int_t)(life_ms / 1000), "usesMax", (json_int_t)uses, "namePattern", names),
                        "createEnrollmentToken", &data, err);
    if (code == ERROR_NONE) code = secret_output_give(path, row_text(data, "createEnrollmentToken.token"), err);
    if (code == ERROR_NONE)
        fprintf(stderr, "enrollment token %s\n", row_text(data, "createEnrollmentToken.enrollmentToken.id"));
    json_decref(data);
    return code;
}

static enum error_code revoke(const struct invocation *invocation, const char *id, struct error *err)
{
    json_t *data = NULL;
    enum error_code code = client_query(invocation->client, "mutation($id: String!) { revokeEnrollmentToken(id: $id) }",
                                        json_pack("{s:s}", "id", id), "revokeEnrollmentToken", &data, err);
    if (code == ERROR_NONE) printf("enrollment token %s revoked\n", id);
    json_decref(data);
    return code;
}

int verb_enrollment(struct invocation *invocation)
{
    struct error err;
    const char *verb = invocation->word_count ? invocation->words[0] : "";
    const char *subject = invocation->word_count == 2 ? invocation->words[1] : NULL;
    enum error_code code;
    if (subject && strcmp(verb, "create") == 0)
        code = create(invocation, subject, &err);
    else if (subject && strcmp(verb, "revoke") == 0)
        code = revoke(invocation, subject, &err);
    else
        code = error_set(&err, ERROR_INVALID, "usage: culvert enrollment create NAME, or: enrollment revoke ID");
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
