#include "agent/reports/destinations.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/reports/application_notes.h"
#include "agent/reports/findings.h"
#include "agent/reports/key_table.h"
#include "base/mem.h"

enum { ALIAS_BYTES_MAX = 512, NAMED_MAX = 8, TEXT_BYTES = 1024 };

static const char scheme[] = "https://";
enum { SCHEME_BYTES = sizeof scheme - 1 };

struct destinations {
    char *server, *name;
    char *aliases[DESTINATIONS_ALIASES_MAX];
    size_t alias_count;
    struct key_table *names;     // of this cluster in Argo CD's Secrets; values: copies of the keys
    struct key_table *same;      // addresses and names with the own API server's identity; values: copies of the keys
    struct key_table *elsewhere; // struct elsewhere by destination
    size_t applications;         // in all of elsewhere
    const char *(*problem_of)(void *arg, struct str elsewhere);
    void *arg;
};

struct elsewhere {
    char *destination;
    size_t applications;
};

// ---- life -------------------------------------------------------------------------------------

static bool has_scheme(struct str text)
{
    return str_starts(text, str_of(scheme, SCHEME_BYTES));
}

// What is left of an address when it is compared: no trailing slash, no default port.
static struct str plain_address(struct str server)
{
    while (str_ends(server, STR("/")))
        server.len--;
    if (has_scheme(server) && str_ends(server, STR(":443"))) server.len -= 4;
    return server;
}

static bool is_alias(struct str alias)
{
    bool is_address = has_scheme(alias);
    struct str rest = is_address ? str_from(alias, SCHEME_BYTES) : alias;
    for (size_t i = 0; i < rest.len; i++) {
        unsigned char c = (unsigned char)rest.at[i];
        if (c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#' || (c == '/' && !is_address)) return false;
    }
    return rest.len > 0 && alias.len <= ALIAS_BYTES_MAX;
}

static enum error_code take_aliases(struct destinations *destinations, struct str list, struct error *err)
{
    while (list.len) {
        struct str alias;
        if (!str_cut(&list, ',', &alias)) list = STR_EMPTY;
        alias = str_trim(alias);
        if (!is_alias(alias))
            return error_set(err, ERROR_INVALID,
                             "invalid alias \"%.*s\" in reporter.cluster_aliases, expected a cluster's name in Argo CD "
                             "or https://host[:port]",
                             STR_ARG(str_first(alias, ALIAS_BYTES_MAX)));
        if (destinations->alias_count == DESTINATIONS_ALIASES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "reporter.cluster_aliases: more than %d", DESTINATIONS_ALIASES_MAX);
        destinations->aliases[destinations->alias_count++] = mem_strndup(alias.at, alias.len);
    }
    return ERROR_NONE;
}

struct destinations *destinations_create(const struct destinations_options *options, struct error *err)
{
    struct destinations *destinations = mem_zalloc(sizeof *destinations);
    destinations->server = mem_strdup(options->server ? options->server : "");
    destinations->name = mem_strdup(options->name ? options->name : "");
    destinations->names = key_table_create();
    destinations->same = key_table_create();
    destinations->elsewhere = key_table_create();
    if (take_aliases(destinations, str_c(options->aliases), err) == ERROR_NONE) return destinations;
    destinations_destroy(destinations);
    return NULL;
}

void destinations_destroy(struct destinations *destinations)
{
    if (!destinations) return;
    size_t cursor = 0;
    for (char *name; (name = key_table_next(destinations->names, &cursor, NULL));)
        mem_free(name);
    cursor = 0;
    for (char *same; (same = key_table_next(destinations->same, &cursor, NULL));)
        mem_free(same);
    cursor = 0;
    for (struct elsewhere *one; (one = key_table_next(destinations->elsewhere, &cursor, NULL));) {
        mem_free(one->destination);
        mem_free(one);
    }
    key_table_destroy(destinations->names);
    key_table_destroy(destinations->same);
    key_table_destroy(destinations->elsewhere);
    for (size_t i = 0; i < destinations->alias_count; i++)
        mem_free(destinations->aliases[i]);
    mem_free(destinations->server);
    mem_free(destinations->name);
    mem_free(destinations);
}

// ---- this cluster -----------------------------------------------------------------------------

// The names under which a cluster's API server is known inside it, and no name that only begins so.
static bool is_inner_address(struct str server)
{
    static const char *const names[] = {"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
                                        "kubernetes.default", "kubernetes"};
    if (!has_scheme(server)) return false;
    struct str host = str_from(server, SCHEME_BYTES);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_eq_nocase(host, str_c(names[i]))) return true;
    return false;
}

static bool is_own_address(const struct destinations *destinations, struct str server)
{
    struct str plain = plain_address(server);
    if (is_inner_address(plain)) return true;
    if (!destinations || !plain.len) return false;
    if (str_eq_nocase(plain, plain_address(str_c(destinations->server)))) return true;
    if (key_table_get(destinations->same, plain)) return true;
    for (size_t i = 0; i < destinations->alias_count; i++) {
        struct str alias = str_c(destinations->aliases[i]);
        if (has_scheme(alias) && str_eq_nocase(plain, plain_address(alias))) return true;
    }
    return false;
}

static bool is_own_name(const struct destinations *destinations, struct str name)
{
    if (!name.len || str_eq(name, STR("in-cluster"))) return true;
    if (!destinations) return false;
    if (str_eq(name, str_c(destinations->name)) || key_table_get(destinations->names, name)) return true;
    if (key_table_get(destinations->same, name)) return true;
    for (size_t i = 0; i < destinations->alias_count; i++)
        if (str_eq(name, str_c(destinations->aliases[i]))) return true;
    return false;
}

bool destinations_is_own(const struct destinations *destinations, struct str server, struct str name)
{
    return server.len ? is_own_address(destinations, server) : is_own_name(destinations, name);
}

bool destinations_learn(struct destinations *destinations, struct str name, struct str server)
{
    if (!is_own_address(destinations, server) || is_own_name(destinations, name)) return false;
    if (key_table_count(destinations->names) == DESTINATIONS_NAMES_MAX) return false;
    key_table_put(destinations->names, name, mem_strndup(name.at, name.len));
    return true;
}

static bool set_same(struct destinations *destinations, struct str key, bool is_same)
{
    bool was = key_table_get(destinations->same, key) != NULL;
    if (!key.len || was == is_same) return false;
    if (is_same && key_table_count(destinations->same) >= DESTINATIONS_NAMES_MAX) return false;
    if (is_same)
        key_table_put(destinations->same, key, mem_strndup(key.at, key.len));
    else
        mem_free(key_table_remove(destinations->same, key));
    return true;
}

bool destinations_identify(struct destinations *destinations, struct str name, struct str server, bool is_own)
{
    bool by_address = set_same(destinations, plain_address(server), is_own);
    return set_same(destinations, name, is_own) || by_address;
}

// ---- other clusters ---------------------------------------------------------------------------

void destinations_enter(struct destinations *destinations, struct str elsewhere)
{
    if (!destinations) return;
    struct elsewhere *one = key_table_get(destinations->elsewhere, elsewhere);
    if (!one) {
        if (key_table_count(destinations->elsewhere) == DESTINATIONS_ELSEWHERE_MAX) return;
        one = mem_zalloc(sizeof *one);
        one->destination = mem_strndup(elsewhere.at, elsewhere.len);
        key_table_put(destinations->elsewhere, elsewhere, one);
    }
    one->applications++;
    destinations->applications++;
}

void destinations_leave(struct destinations *destinations, struct str elsewhere)
{
    struct elsewhere *one = destinations ? key_table_get(destinations->elsewhere, elsewhere) : NULL;
    if (!one) return;
    assert(destinations->applications && one->applications);
    destinations->applications--;
    if (--one->applications) return;
    key_table_remove(destinations->elsewhere, elsewhere);
    mem_free(one->destination);
    mem_free(one);
}

static const char cure[] =
    "if that is the agent's own cluster, add this name or address to reporter.cluster_aliases, or its cluster Secret "
    "to reporter.cluster_secrets; to read another cluster, add its cluster Secret to reporter.cluster_secrets and set "
    "reporter.managed_clusters = true";
static const char managed_cure[] = "check its cluster Secret in reporter.cluster_secrets, that the cluster is reached "
                                   "from here, and the limit reporter.managed_objects_max";

bool destinations_is_same(struct str one, struct str other)
{
    return has_scheme(one) && str_eq_nocase(plain_address(one), plain_address(other));
}

void destinations_read_by(struct destinations *destinations, const char *(*problem_of)(void *arg, struct str elsewhere),
                          void *arg)
{
    destinations->problem_of = problem_of;
    destinations->arg = arg;
}

static const char *problem_of(const struct destinations *destinations, struct str elsewhere)
{
    return destinations->problem_of ? destinations->problem_of(destinations->arg, elsewhere) : NULL;
}

json_t *destinations_unread(const struct destinations *destinations, struct str server, struct str name)
{
    if (destinations_is_own(destinations, server, name)) return NULL;
    char message[TEXT_BYTES * 2];
    struct str elsewhere = server.len ? server : name, where = str_first(elsewhere, ALIAS_BYTES_MAX);
    const char *problem = problem_of(destinations, elsewhere);
    if (problem && !*problem) return NULL;
    if (problem)
        snprintf(message, sizeof message,
                 "the agent cannot read the cluster %.*s, to which the Application deploys: %s; its resources are "
                 "shown as they were read last",
                 STR_ARG(where), problem);
    else
        snprintf(message, sizeof message,
                 "the agent does not read the cluster %.*s, to which the Application deploys: its sync state and "
                 "health are Argo CD's, its resources are not shown",
                 STR_ARG(where));
    return application_notes_unread(message, problem ? managed_cure : cure);
}

static void add_finding(const struct destinations *destinations, json_t *findings, size_t applications,
                        struct str elsewhere)
{
    char message[TEXT_BYTES * 2];
    struct str where = str_first(elsewhere, ALIAS_BYTES_MAX);
    const char *problem = problem_of(destinations, elsewhere);
    if (problem && !*problem) return;
    if (problem)
        snprintf(message, sizeof message,
                 "%zu Applications deploy to %.*s, which cannot be read: %s; their resources are shown as they were "
                 "read last",
                 applications, STR_ARG(where), problem);
    else
        snprintf(message, sizeof message,
                 "%zu Applications deploy to %.*s, which this agent does not read: their sync state and health are "
                 "Argo CD's, their resources are not shown",
                 applications, STR_ARG(where));
    findings_add(findings, "CLUSTER_NOT_READ", FINDING_WARNING, message, problem ? managed_cure : cure);
}

static bool is_read(const struct destinations *destinations, const struct elsewhere *one)
{
    const char *problem = problem_of(destinations, str_c(one->destination));
    return problem && !*problem;
}

// Of those that are not read the one behind `than` in the order of Applications, most first, then
// of names.
static const struct elsewhere *next_of(const struct destinations *destinations, const struct elsewhere *than)
{
    const struct elsewhere *best = NULL;
    size_t cursor = 0;
    for (const struct elsewhere *one; (one = key_table_next(destinations->elsewhere, &cursor, NULL));) {
        if (is_read(destinations, one)) continue;
        bool behind = !than || one->applications < than->applications ||
                      (one->applications == than->applications && strcmp(one->destination, than->destination) > 0);
        bool better = !best || one->applications > best->applications ||
                      (one->applications == best->applications && strcmp(one->destination, best->destination) < 0);
        if (behind && better) best = one;
    }
    return best;
}

void destinations_findings(const struct destinations *destinations, json_t *findings)
{
    const struct elsewhere *one = NULL;
    size_t rest = destinations->applications, cursor = 0;
    for (const struct elsewhere *each; (each = key_table_next(destinations->elsewhere, &cursor, NULL));)
        if (is_read(destinations, each)) rest -= each->applications;
    for (size_t named = 0; named < NAMED_MAX && (one = next_of(destinations, one)); named++) {
        add_finding(destinations, findings, one->applications, str_c(one->destination));
        rest -= one->applications;
    }
    if (rest) add_finding(destinations, findings, rest, STR("further clusters"));
}
