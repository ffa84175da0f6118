#include "agent/argo/argocd_settings.h"

#include <stddef.h>

#include "agent/argo/argo_api.h"

#define AT(field) offsetof(struct argocd_settings, field)

static const struct config_entry entries[] = {
    {.name = "argocd.url",
     .type = CONFIG_STRING,
     .offset = AT(url),
     .def = "",
     .help = "Argo CD's API (argocd-server), https://host[:port][/prefix]: health by its custom rules, "
             "children that no watch finds, and the commits of releases are read there; empty: they are not."},
    {.name = "argocd.token_file",
     .type = CONFIG_STRING,
     .offset = AT(token_file),
     .def = "",
     .help = "File with the token of an account of Argo CD that may get applications. Read again every minute, and "
             "after it was refused. The token is sent to argocd.url alone."},
    {.name = "argocd.ca_file",
     .type = CONFIG_PATH,
     .offset = AT(ca_file),
     .def = "",
     .help = "PEM file with the CAs that the certificate of argocd.url is verified against; empty: the CAs of the "
             "system."},
    {.name = "argocd.timeout",
     .type = CONFIG_DURATION,
     .offset = AT(timeout_ms),
     .def = "10s",
     .min = 100,
     .max = 300000,
     .help = "Time limit of a request to Argo CD's API."},
    {.name = "argocd.interval",
     .type = CONFIG_DURATION,
     .offset = AT(interval_ms),
     .def = "2s",
     .min = 100,
     .max = 60 * 60 * 1000,
     .help = "Least time between two reads of the resource tree of one Application while it changes."},
    {.name = "argocd.refresh_interval",
     .type = CONFIG_DURATION,
     .offset = AT(refresh_interval_ms),
     .def = "5m",
     .min = 1000,
     .max = 24 * 60 * 60 * 1000,
     .help = "How often the resource tree of an Application is read that does not change."},
    {.name = "argocd.requests_max",
     .type = CONFIG_INT,
     .offset = AT(requests_max),
     .def = "2",
     .min = 1,
     .max = ARGO_API_REQUESTS_MAX,
     .help = "Concurrent requests to Argo CD's API."},
    {.name = "argocd.bytes_max",
     .type = CONFIG_BYTES,
     .offset = AT(bytes_max),
     .def = "16MiB",
     .min = 64 * 1024,
     .max = 256 * 1024 * 1024,
     .help = "Bytes of one answer of Argo CD's API; a larger one is not used."},
    {.name = "argocd.nodes_max",
     .type = CONFIG_INT,
     .offset = AT(nodes_max),
     .def = "200000",
     .min = 1000,
     .max = 10000000,
     .help = "Nodes of resource trees that are kept; about 500 bytes of memory each. Those beyond it have the agent's "
             "own assessment."},
    {.name = "argocd.commits_max",
     .type = CONFIG_INT,
     .offset = AT(commits_max),
     .def = "10000",
     .min = 100,
     .max = 1000000,
     .help = "Commits that are kept; beyond it the oldest are read again when an Application names them."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct argocd_settings *argocd = argocd_settings_of(config);
    if (!*argocd->url != !*argocd->token_file)
        strbuf_add_c(problems, "argocd.url and argocd.token_file: must be set together\n");
}

const struct config_section argocd_settings_section = {
    .title = "argocd", .size = sizeof(struct argocd_settings), CONFIG_ENTRIES(entries), .check = check};
