#include "storage/pg/database_settings.h"

#include <stddef.h>

#include "base/config/config_units.h"

#define AT(field) offsetof(struct database_settings, field)

static const struct config_entry entries[] = {
    {.name = "database.url",
     .type = CONFIG_STRING,
     .offset = AT(url),
     .def = NULL,
     .secret = true,
     .help = "libpq connection string of the server's login, a member of culvert_app and nothing more (`culvertd admin "
             "print-roles`); file:/path reads it from a file."},
    {.name = "database.connections",
     .type = CONFIG_INT,
     .offset = AT(connections),
     .def = "2",
     .min = 1,
     .max = 16,
     .help = "Pipelined connections per loop."},
    {.name = "database.queue_max",
     .type = CONFIG_INT,
     .offset = AT(queue_max),
     .def = "1024",
     .min = 16,
     .max = 65536,
     .help = "Transactions that may wait on a loop; further ones are refused at once."},
    {.name = "database.statement_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(statement_timeout_ms),
     .def = "10s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "PostgreSQL cancels a statement that runs longer."},
    {.name = "database.slow_statement_timeout",
     .type = CONFIG_DURATION,
     .offset = AT(slow_statement_timeout_ms),
     .def = "60s",
     .min = 100,
     .max = 60 * MINUTE,
     .help = "The same for statements that may read a whole inventory: ends of snapshots, housekeeping."},
    {.name = "database.statements_max",
     .type = CONFIG_INT,
     .offset = AT(statements_max),
     .def = "256",
     .min = 16,
     .max = 4096,
     .help = "Statements of compiled selections that each connection keeps prepared."},
    {.name = "database.deadline",
     .type = CONFIG_DURATION,
     .offset = AT(deadline_ms),
     .def = "15s",
     .min = 100,
     .max = 10 * MINUTE,
     .help = "How long a request waits for its transaction, including queueing and reconnects."},
};

static void check(const struct config *config, struct strbuf *problems)
{
    const struct database_settings *database = database_settings_of(config);
    if (database->url[0] == '\0') strbuf_add_c(problems, "database.url: is empty\n");
    if (database->slow_statement_timeout_ms < database->statement_timeout_ms)
        strbuf_add_c(problems, "database.slow_statement_timeout: is shorter than database.statement_timeout\n");
}

const struct config_section database_settings_section = {.size = sizeof(struct database_settings),
                                                         .title = "PostgreSQL 15 (required)",
                                                         CONFIG_ENTRIES(entries),
                                                         .check = check};
