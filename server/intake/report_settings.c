#include "server/intake/report_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"
#include "tunnel/wire/redaction.h"

#define AT(field) offsetof(struct report_settings, field)

static const struct config_entry entries[] = {
    {.name = "reports.batch_count",
     .type = CONFIG_INT,
     .offset = AT(batch_count),
     .def = "256",
     .min = 1,
     .max = 256,
     .help = "Reports in one transaction."},
    {.name = "reports.batch_bytes",
     .type = CONFIG_BYTES,
     .offset = AT(batch_bytes),
     .def = "4MiB",
     .min = 64 * KIB,
     .max = 32 * MIB,
     .help = "Bytes in one transaction (a single larger report gets a transaction of its own)."},
    {.name = "reports.batch_delay",
     .type = CONFIG_DURATION,
     .offset = AT(batch_delay_ms),
     .def = "5ms",
     .max = SECOND,
     .help = "How long a report waits for others to share its transaction."},
    {.name = "reports.queue_max",
     .type = CONFIG_BYTES,
     .offset = AT(queue_bytes_max),
     .def = "64MiB",
     .min = 16 * MIB,
     .max = 16 * GIB,
     .help = "Bytes of reports that may wait on a loop; beyond it tunnels are paused and HTTP gets 503."},
    {.name = "reports.transactions",
     .type = CONFIG_INT,
     .offset = AT(transactions),
     .def = "0",
     .max = 64,
     .help = "Report transactions in flight per loop; the account that was served least goes first. 0: as many as "
             "database.connections."},
    {.name = "reports.account_share",
     .type = CONFIG_INT,
     .offset = AT(account_share),
     .def = "25",
     .min = 1,
     .max = 100,
     .help = "Percentage of reports.queue_max that one account may use; beyond it its tunnels are paused and HTTP gets "
             "429."},
    {.name = "reports.runtime_share",
     .type = CONFIG_INT,
     .offset = AT(runtime_share),
     .def = "12",
     .min = 1,
     .max = 100,
     .help = "The same for one runtime."},
    {.name = "reports.open_paths",
     .type = CONFIG_STRING,
     .offset = AT(open_paths),
     .def = "",
     .help =
         "Values that are stored of objects reported over HTTP, in addition to those in docs/security.md, "
         "comma-separated: Kind[.group]:path, for example Deployment.apps:spec.template.spec.containers.env.value. * "
         "as kind is every kind; a member whose name has a dot is written [\"as.this\"]; list elements have no name. "
         "Everything below the path is stored as well. Secrets cannot be opened. Agents have a setting of their own."},
    {.name = "reports.open_labels",
     .type = CONFIG_STRING,
     .offset = AT(open_labels),
     .def = "",
     .help = "Keys of labels whose values are stored as well, comma-separated; a trailing * matches every key with "
             "that prefix."},
    {.name = "reports.open_annotations",
     .type = CONFIG_STRING,
     .offset = AT(open_annotations),
     .def = "",
     .help = "The same for annotations."},
    {.name = "reports.unpacked_per_second",
     .type = CONFIG_BYTES,
     .offset = AT(unpacked_per_second),
     .def = "32MiB",
     .min = 4 * MIB,
     .max = 4 * GIB,
     .help = "Bytes per second and loop to which compressed manifests of one account may unpack (four times as many in "
             "a burst); beyond it its tunnels are paused."},
    {.name = "reports.noise_burst",
     .type = CONFIG_INT,
     .offset = AT(flapping_burst),
     .def = "30",
     .max = 1000000,
     .help = "Changes of one object in a burst before it counts as flapping and is listed in noisyObjects of its "
             "runtime; nothing is refused. 0: no object is listed."},
    {.name = "reports.noise_interval",
     .type = CONFIG_DURATION,
     .offset = AT(flapping_interval_ms),
     .def = "2s",
     .min = 1,
     .max = 60 * MINUTE,
     .help = "Average interval between changes of an object that is not flapping."},
};

static void check_open(const char *setting, const struct redaction_options *options, struct strbuf *problems)
{
    static const uint8_t any_key[REDACTION_KEY_BYTES];
    struct redaction *redaction = NULL;
    struct error err;
    if (redaction_create(any_key, options, &redaction, &err) != ERROR_NONE)
        strbuf_addf(problems, "%s: %s\n", setting, err.text);
    redaction_destroy(redaction);
}

static void check(const struct config *config, struct strbuf *problems)
{
    const struct report_settings *reports = report_settings_of(config);
    const struct redaction_options paths = {.open_paths = str_c(reports->open_paths)};
    const struct redaction_options labels = {.open_labels = str_c(reports->open_labels)};
    const struct redaction_options annotations = {.open_annotations = str_c(reports->open_annotations)};
    check_open("reports.open_paths", &paths, problems);
    check_open("reports.open_labels", &labels, problems);
    check_open("reports.open_annotations", &annotations, problems);
    if (reports->batch_bytes > reports->queue_bytes_max)
        strbuf_add_c(problems, "reports.batch_bytes: is larger than reports.queue_max\n");
}

const struct config_section report_settings_section = {
    .size = sizeof(struct report_settings), .title = "Reports", CONFIG_ENTRIES(entries), .check = check};
