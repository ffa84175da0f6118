// An operation as the platform sends it: what is taken has a path that stays within its namespace,
// and is judged without harm whatever object it meets.
#include <stdint.h>
#include <stdlib.h>

#include "agent/operations/operation_judge.h"
#include "agent/operations/operation_rights.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void judge(const struct operation *operation, const json_t *object)
{
    for (int i = 0; i < 4; i++) {
        const struct operation_past past = {.is_sent = i & 1, .is_maybe = i & 2};
        struct operation_decision decision;
        operation_judge(operation, "id", object, &past, &decision);
        if ((decision.verdict == OPERATION_CHANGE) != (decision.body != NULL)) abort();
        json_decref(decision.body);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct operation operation;
    struct operation_rights *rights;
    struct error err;
    if (operation_parse(str_of((const char *)at, len), &operation, NULL) != ERROR_NONE) return 0;
    if (operation_rights_create(STR_EMPTY, &rights, &err) != ERROR_NONE) abort();
    if (operation_rights_check(rights, &operation, &err) == ERROR_NONE) abort();
    operation_rights_destroy(rights);
    char *path = operation_path(&operation, NULL);
    for (const char *c = path; *c; c++)
        if (*c <= ' ' || *c == '?' || *c == '#' || *c == '%' || (c[0] == '/' && c[1] == '.')) abort();
    mem_free(path);
    judge(&operation, NULL);
    judge(&operation, operation.document); // any object
    operation_finish(&operation);
    return 0;
}
