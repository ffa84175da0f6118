#include "api/access/access_fields.h"

static const struct {
    const char *field;
    enum access_entity entity;
} viewed[] = {
    {"resourceTree", ENTITY_GITOPS_APPLICATIONS},
    {"pipeline", ENTITY_PIPELINES},
    {"pipelines", ENTITY_PIPELINES},
};

// About the account, its people and the caller; mutations that check by themselves. Those that
// admins alone may use are
// open to no one whom rules limit, because admins are exempt.
static const char *const unruled[] = {
    "me",
    "users",
    "teams",
    "serviceUsers",
    "myApiKey",
    "myApiKeys",
    "createMyApiKey",
    "revokeMyApiKey",
    "deviceAuthorization",
    "decideDeviceAuthorization",
    "defaultAccess",
    "runtime",
    "runtimes",
    "limitsStatus",
    "latestCliRelease",
    "shouldBeImplicitConfigurationRuntime",
    "runOperation", // checks the object
    "permissions",  // of the caller
};

enum error_code access_field_check(const char *field, struct access_rules *rules, struct error *err)
{
    if (!rules) return ERROR_NONE;
    for (size_t i = 0; i < sizeof unruled / sizeof *unruled; i++)
        if (strcmp(unruled[i], field) == 0) return ERROR_NONE;
    for (size_t i = 0; i < sizeof viewed / sizeof *viewed; i++) {
        if (strcmp(viewed[i].field, field) != 0) continue;
        if (access_allows_all(rules, viewed[i].entity, ACTION_VIEW)) return ERROR_NONE;
        return error_set(err, ERROR_FORBIDDEN,
                         "%s requires a user who may VIEW all entities of the type %s, rules of the account limit you",
                         field, access_entity_name(viewed[i].entity));
    }
    for (size_t i = 0; i < ENTITY_COUNT; i++)
        for (size_t j = 0; j < ACTION_COUNT; j++)
            if (!access_allows_all(rules, (enum access_entity)i, (enum access_action)j))
                return error_set(err, ERROR_FORBIDDEN,
                                 "%s requires a user whom no rules limit; a rule or the default of the account denies "
                                 "%s of entities of the type %s",
                                 field, access_action_name((enum access_action)j),
                                 access_entity_name((enum access_entity)i));
    return ERROR_NONE;
}
