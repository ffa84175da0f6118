#include "api/oidc/provider_settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/access/scope.h"
#include "api/oidc/jwk_set.h"
#include "api/oidc/web_client.h"
#include "base/config/config.h"
#include "base/json/json.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 256 * 1024, TEXT_BYTES_MAX = 500, ENTRIES_MAX = 1000, SCOPE_BYTES_MAX = 1000 };

// What is being read, for complaints.
struct reading {
    const char *file;
    struct strbuf *problems;
    size_t index;
    const json_t *value; // of the provider
    unsigned faults;
};

__attribute__((format(printf, 3, 4))) static void complain(struct reading *reading, const char *member,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    strbuf_addf(reading->problems, "sign_in.providers_file: %s: providers[%zu]%s%s: ", reading->file, reading->index,
                *member ? "." : "", member);
    strbuf_addv(reading->problems, format, args);
    strbuf_add_c(reading->problems, "\n");
    va_end(args);
    reading->faults++;
}

// ---- members ------------------------------------------------------------------------------------

// def NULL: required.
static char *take_text(struct reading *reading, const char *member, const char *def)
{
    const json_t *value = json_object_get(reading->value, member);
    struct str text = json_str(value);
    if (!value && def) return mem_strdup(def);
    if (!json_is_string(value) || !text.len || text.len > TEXT_BYTES_MAX || str_has_byte(text, '\0')) {
        complain(reading, member, "must be a text of 1 to %d bytes%s", TEXT_BYTES_MAX, value ? "" : "; it is missing");
        return mem_strdup("");
    }
    return mem_strndup(text.at, text.len);
}

static bool take_bool(struct reading *reading, const char *member)
{
    const json_t *value = json_object_get(reading->value, member);
    if (value && !json_is_boolean(value)) complain(reading, member, "must be true or false");
    return json_is_true(value);
}

static bool take_choice(struct reading *reading, const char *member, const char *usual, const char *other)
{
    AUTO_FREE char *text = take_text(reading, member, usual);
    if (strcmp(text, usual) != 0 && strcmp(text, other) != 0)
        complain(reading, member, "must be \"%s\" or \"%s\"", usual, other);
    return strcmp(text, other) == 0;
}

static bool are_texts(const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || !json_str(item).len || json_str(item).len > TEXT_BYTES_MAX) return false;
    }
    return json_is_array(list) && json_array_size(list) <= ENTRIES_MAX;
}

static json_t *take_list(struct reading *reading, const char *member)
{
    json_t *value = json_object_get(reading->value, member);
    if (!value) return json_array();
    if (!are_texts(value)) complain(reading, member, "must be a list of at most %d texts", ENTRIES_MAX);
    return json_incref(value);
}

static json_t *take_map(struct reading *reading, const char *member, bool accepts_lists)
{
    json_t *value = json_object_get(reading->value, member), *item;
    const char *key;
    if (!value) return json_object();
    bool fits = json_is_object(value) && json_object_size(value) <= ENTRIES_MAX;
    json_object_foreach(value, key, item)
    {
        fits &= (json_is_string(item) && json_str(item).len) || (accepts_lists && are_texts(item));
    }
    if (!fits)
        complain(reading, member, "must be an object of at most %d texts%s", ENTRIES_MAX,
                 accepts_lists ? " or lists of texts" : "");
    return json_incref(value);
}

static char *take_id(struct reading *reading)
{
    char *id = take_text(reading, "id", NULL);
    size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (*id && (id[len] || len > PROVIDER_ID_BYTES_MAX))
        complain(reading, "id", "must be 1 to %d of a-z, 0-9 and -", PROVIDER_ID_BYTES_MAX);
    return id;
}

static char *take_issuer(struct reading *reading)
{
    struct error err;
    char *issuer = take_text(reading, "issuer", NULL);
    if (*issuer && (web_url_check(str_c(issuer), &err) != ERROR_NONE || strchr(issuer, '?')))
        complain(reading, "issuer", "must be a URL https://HOST/... (or http to loopback), without query");
    return issuer;
}

static char *take_secret(struct reading *reading)
{
    bool in_file = json_object_get(reading->value, "client_secret_file");
    bool in_environment = json_object_get(reading->value, "client_secret_env");
    if (in_file && in_environment)
        complain(reading, "", "must have one of client_secret_file and client_secret_env, not both");
    if (!in_file && !in_environment) return NULL;
    AUTO_FREE char *name = take_text(reading, in_file ? "client_secret_file" : "client_secret_env", NULL);
    if (in_environment) {
        const char *value = getenv(name);
        if (*name && (!value || !*value))
            complain(reading, "client_secret_env", "the environment variable %s is not set or empty", name);
        return mem_strdup(value ? value : "");
    }
    char *secret = NULL;
    struct error err;
    AUTO_FREE char *reference = mem_printf("file:%s", name);
    if (*name && config_secret(reference, &secret, &err) != ERROR_NONE)
        complain(reading, "client_secret_file", "%s", err.text);
    return secret ? secret : mem_strdup("");
}

static unsigned take_algorithms(struct reading *reading)
{
    json_t *list = json_object_get(reading->value, "algorithms"), *item;
    unsigned algorithms = 0;
    size_t i;
    if (!list) return JWK_ALL;
    json_array_foreach(list, i, item)
    {
        enum jwk_algorithm one = jwk_algorithm_of(json_str(item));
        algorithms |= (unsigned)one;
        if (!one) complain(reading, "algorithms", "must be a list of RS256, PS256, ES256 and EdDSA");
    }
    if (!algorithms) complain(reading, "algorithms", "must not be empty");
    return algorithms;
}

static char *take_scope(struct reading *reading)
{
    json_t *list = take_list(reading, "scopes"), *item;
    size_t i;
    struct strbuf scope;
    strbuf_init(&scope, ENTRIES_MAX * TEXT_BYTES_MAX);
    strbuf_add_c(&scope, json_array_size(list) ? "openid" : "openid profile email");
    json_array_foreach(list, i, item)
    {
        if (!str_eq(json_str(item), STR("openid"))) strbuf_addf(&scope, " %.*s", STR_ARG(json_str(item)));
    }
    json_decref(list);
    if (scope.len > SCOPE_BYTES_MAX) complain(reading, "scopes", "must have at most %d bytes", SCOPE_BYTES_MAX);
    return strbuf_detach(&scope);
}

// ---- the file -----------------------------------------------------------------------------------

// A misspelt member would be one that has no effect.
static void check_names(struct reading *reading)
{
    static const char *const known[] = {
        "id",           "title",        "issuer",     "client_id", "client_secret_file",     "client_secret_env",
        "client_auth",  "account",      "scopes",     "role",      "groups_claim",           "teams",
        "admin_groups", "create_users", "algorithms", "exchange",  "link_by_verified_email", "required_claims",
    };
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)reading->value, name, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(name, known[i]) == 0;
        if (!is_known) complain(reading, "", "has the unknown member \"%.100s\"", name);
    }
}

// Without a claim a rule would be for the jobs of everybody who has an account there.
static bool is_rule(json_t *rule)
{
    json_t *claims = json_object_get(rule, "claims"), *scopes = json_object_get(rule, "scopes"), *item;
    const char *name;
    size_t i;
    bool fits = json_object_size(rule) == 3 && json_object_size(claims) && json_array_size(scopes) &&
                json_get_str(rule, "user").len;
    json_object_foreach(claims, name, item)
    {
        fits &= (json_is_string(item) && json_str(item).len) || (are_texts(item) && json_array_size(item));
    }
    json_array_foreach(scopes, i, item)
    {
        fits &= scope_bit(json_str(item)) != 0;
    }
    return fits;
}

static void take_exchange(struct reading *reading, struct provider_settings *out)
{
    json_t *exchange = json_object_get(reading->value, "exchange"), *rules = json_get_array(exchange, "rules"), *rule;
    struct str audience = json_get_str(exchange, "audience");
    size_t i;
    out->exchange_audience = mem_strndup(audience.at, audience.len);
    out->exchange_rules = rules ? json_incref(rules) : json_array();
    if (!exchange) return;
    if (json_object_size(exchange) != 2 || !audience.len || !json_array_size(rules) ||
        json_array_size(rules) > ENTRIES_MAX)
        complain(reading, "exchange", "must be {\"audience\": TEXT, \"rules\": [...]} with 1 to %d rules", ENTRIES_MAX);
    json_array_foreach(rules, i, rule)
    {
        if (!is_rule(rule))
            complain(
                reading, "exchange",
                "rules[%zu]: must be {\"claims\": {CLAIM: TEXT or list, ...}, \"user\": TEXT, \"scopes\": [...]}, the "
                "scopes of read, write, calls and admin, with at least one claim and scope",
                i);
    }
}

static void take_provider(struct reading *reading, struct provider_settings *out)
{
    check_names(reading);
    out->id = take_id(reading);
    out->title = take_text(reading, "title", out->id);
    out->issuer = take_issuer(reading);
    out->client_id = take_text(reading, "client_id", json_object_get(reading->value, "exchange") ? "" : NULL);
    out->client_secret = take_secret(reading);
    out->secret_in_body = take_choice(reading, "client_auth", "basic", "post");
    out->account = take_text(reading, "account", NULL);
    out->scope = take_scope(reading);
    out->groups_claim = take_text(reading, "groups_claim", "groups");
    out->algorithms = take_algorithms(reading);
    out->creates_users = take_bool(reading, "create_users");
    out->links_by_email = take_bool(reading, "link_by_verified_email");
    out->is_read_only = take_choice(reading, "role", "member", "read-only");
    out->teams = take_map(reading, "teams", false);
    out->admin_groups = take_list(reading, "admin_groups");
    out->required_claims = take_map(reading, "required_claims", true);
    take_exchange(reading, out);
}

static void check_different(struct reading *reading, const struct provider_list *list)
{
    const struct provider_settings *last = &list->items[reading->index];
    for (size_t i = 0; i < reading->index; i++) {
        if (*last->id && strcmp(list->items[i].id, last->id) == 0)
            complain(reading, "id", "\"%s\" is the id of another provider, too", last->id);
    }
}

static char *read_text(const char *file, size_t *out_len)
{
    FILE *stream = fopen(file, "re");
    if (!stream) return NULL;
    char *text = mem_alloc(FILE_BYTES_MAX + 1);
    *out_len = fread(text, 1, FILE_BYTES_MAX + 1, stream);
    fclose(stream);
    return text;
}

enum error_code provider_list_load(const char *file, struct provider_list *out, struct strbuf *problems)
{
    const struct json_limits limits = {.bytes_max = FILE_BYTES_MAX, .depth_max = 8};
    struct reading reading = {.file = file, .problems = problems};
    struct error err;
    json_t *root = NULL, *value;
    size_t len = 0;
    *out = (struct provider_list){0};
    AUTO_FREE char *text = read_text(file, &len);
    if (!text || json_decode(str_of(text, len), &limits, &root, &err) != ERROR_NONE) {
        strbuf_addf(problems, "sign_in.providers_file: %s: %s\n", file, text ? err.text : "cannot be read");
        return ERROR_INVALID;
    }
    json_t *list = json_get_array(root, "providers");
    if (!list || json_object_size(root) != 1 || json_array_size(list) > PROVIDERS_MAX) {
        strbuf_addf(problems, "sign_in.providers_file: %s: must be {\"providers\": [...]} with at most %d of them\n",
                    file, PROVIDERS_MAX);
        json_decref(root);
        return ERROR_INVALID;
    }
    json_array_foreach(list, reading.index, value)
    {
        reading.value = value;
        if (!json_is_object(value)) complain(&reading, "", "must be an object");
        take_provider(&reading, &out->items[out->count++]);
        check_different(&reading, out);
    }
    json_decref(root);
    if (!reading.faults) return ERROR_NONE;
    provider_list_finish(out);
    return ERROR_INVALID;
}

void provider_list_finish(struct provider_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct provider_settings *each = &list->items[i];
        char *texts[] = {each->id,      each->title, each->issuer,       each->client_id,
                         each->account, each->scope, each->groups_claim, each->exchange_audience};
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            mem_free(texts[j]);
        if (each->client_secret) mem_free_secret(each->client_secret, strlen(each->client_secret));
        json_decref(each->teams);
        json_decref(each->admin_groups);
        json_decref(each->required_claims);
        json_decref(each->exchange_rules);
    }
    *list = (struct provider_list){0};
}
