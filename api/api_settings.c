#include "api/api_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct api_settings, field)

static const struct config_entry entries[] = {
    {.name = "api.connections_max",
     .type = CONFIG_INT,
     .offset = AT(connections_max),
     .def = "8192",
     .min = 1,
     .max = 1000000,
     .help = "Open connections of this replica; further ones wait in the kernel's accept queue."},
    {.name = "api.connections_per_address_max",
     .type = CONFIG_INT,
     .offset = AT(connections_per_address_max),
     .def = "1024",
     .max = 1000000,
     .help = "Open connections per client address (IPv6: per /64), except for ingress.trusted_proxies; 0: no limit."},
    {.name = "api.request_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(request_timeout_ms),
     .def = "30s",
     .min = SECOND,
     .max = 10 * MINUTE,
     .help = "A request, head and body, must arrive within this time; also the idle timeout between requests."},
    {.name = "api.body_max",
     .type = CONFIG_BYTES,
     .offset = AT(body_bytes_max),
     .def = "1MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Maximum size of request bodies of the API."},
    {.name = "api.events_body_max",
     .type = CONFIG_BYTES,
     .offset = AT(events_bytes_max),
     .def = "10MiB",
     .min = KIB,
     .max = 32 * MIB,
     .help = "Maximum size of bodies of POST /2.0/api/events, inflated, and of calls through /runtimes/<name>/proxy/."},
    {.name = "api.compress_min",
     .type = CONFIG_BYTES,
     .offset = AT(compress_bytes_min),
     .def = "1KiB",
     .min = 1,
     .max = GIB,
     .help = "Answers from this size on are compressed with zstd or gzip, as the client accepts it."},
    {.name = "api.compress_max",
     .type = CONFIG_BYTES,
     .offset = AT(compress_bytes_max),
     .def = "1MiB",
     .max = 64 * MIB,
     .help =
         "Larger answers are sent as they are, because compressing them would hold up others; 0: none is compressed."},
    {.name = "head_max",
     .type = CONFIG_BYTES,
     .offset = AT(head_bytes_max),
     .def = "32KiB",
     .min = 4 * KIB,
     .max = 32 * KIB,
     .help = "Maximum size of request line and headers, on the API and ingress listeners."},
    {.name = "graphql.tokens_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_tokens_max),
     .def = "1000",
     .min = 100,
     .max = 10000,
     .help = "Maximum number of lexical tokens of a GraphQL document."},
    {.name = "graphql.depth_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_depth_max),
     .def = "12",
     .min = 3,
     .max = 64,
     .help = "Maximum nesting of a GraphQL selection."},
    {.name = "graphql.cost_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_cost_max),
     .def = "20000",
     .min = 100,
     .max = 10000000,
     .help = "Maximum cost of a GraphQL query: the rows that its lists may have, each times 1 and 1 more for every "
             "field that is a list or an object of its own. Checked before PostgreSQL is asked."},
    {.name = "graphql.plans_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_plans_max),
     .def = "1024",
     .min = 16,
     .max = 65536,
     .help = "Compiled selections of GraphQL that each loop keeps; the least recently used one is dropped."},
    {.name = "graphql.counts_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_counts_max),
     .def = "128",
     .min = 0,
     .max = 4096,
     .help =
         "Totals, fences and facets of lists that each loop keeps for graphql.count_interval; 0: none, every caller "
         "counts for itself."},
    {.name = "graphql.count_interval",
     .type = CONFIG_DURATION,
     .offset = AT(graphql_count_interval_ms),
     .def = "1s",
     .min = 0,
     .max = MINUTE,
     .help = "The rows of a list are counted at most once in this time for the same question and rights; answers have "
             "the time of their count."},
    {.name = "graphql.persisted_documents_max",
     .type = CONFIG_INT,
     .offset = AT(graphql_documents_max),
     .def = "1024",
     .max = 65536,
     .help = "Documents of up to 64 KiB that each loop keeps for clients which then send the hash alone (automatic "
             "persisted queries); the least recently used one is dropped; 0: none."},
    {.name = "graphql.documents_file",
     .type = CONFIG_PATH,
     .offset = AT(graphql_documents_file),
     .def = "",
     .help = "A JSON object of GraphQL documents by their SHA-256 in hex, which clients may name by the hash. Read at "
             "start."},
    {.name = "graphql.documents_only",
     .type = CONFIG_BOOL,
     .offset = AT(graphql_documents_only),
     .def = "false",
     .help = "Execute documents of graphql.documents_file alone; REST is not affected. The web UI works only if its "
             "documents are in the file."},
    {.name = "graphql.introspection",
     .type = CONFIG_BOOL,
     .offset = AT(graphql_introspection),
     .def = "true",
     .help = "Answer __schema and __type to authenticated callers."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct api_settings *api = api_settings_of(config);
    if (api->body_bytes_max > api->events_bytes_max)
        strbuf_add_c(problems, "api.body_max: is larger than api.events_body_max\n");
    if (api->graphql_documents_only && !*api->graphql_documents_file)
        strbuf_add_c(problems, "graphql.documents_only: requires graphql.documents_file\n");
}

const struct config_section api_settings_section = {.size = sizeof(struct api_settings),
                                                    .title = "Limits of the API listener",
                                                    CONFIG_ENTRIES(entries),
                                                    .check = check};
