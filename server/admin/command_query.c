#include "server/admin/command_query.h"

#include <string.h>

#include "base/deployment_key.h"
#include "base/mem.h"
#include "server/security_settings.h"
#include "storage/pg/database_settings.h"
#include "storage/reports/storage_settings.h"

enum { QUEUE_MAX = 16 };

static void on_closed(void *arg)
{
    struct command_query *query = arg;
    loop_stop(query->loop);
}

static void end(struct command_query *query)
{
    timer_finish(&query->timer);
    pg_close(query->pg, on_closed, query);
}

static void end_posted(void *arg)
{
    end(arg);
}

void command_query_on_node(void *arg, const struct error *err, struct str node)
{
    struct command_query *query = arg;
    if (err)
        query->err = *err;
    else
        query->node = mem_strndup(node.at, node.len);
    loop_post(query->loop, end_posted, query);
}

void command_query_on_count(void *arg, const struct error *err, uint64_t count)
{
    struct command_query *query = arg;
    if (err) query->err = *err;
    query->count = count;
    loop_post(query->loop, end_posted, query);
}

// The pool waits for its database while it reconnects; a command gives up after a while and says
// so.
static void on_deadline(void *arg)
{
    struct command_query *query = arg;
    error_set(&query->err, ERROR_UNAVAILABLE, "the database does not answer");
    end(query);
}

enum error_code command_query_run(const struct config *config, struct command_query *query, command_query_fn fn,
                                  void *arg)
{
    const struct security_settings *security = security_settings_of(config);
    const struct database_settings *database = database_settings_of(config);
    char *conninfo, settings[STORAGE_SETTINGS_BYTES];
    *query = (struct command_query){.deadline_ms = (uint64_t)database->deadline_ms};
    if (config_secret(database->url, &conninfo, &query->err) != ERROR_NONE) return query->err.code;
    struct deployment_key *deployment_key = NULL;
    struct purpose_key column_key;
    if (deployment_key_load(security->deployment_key_file, security->deployment_key_previous_file, &deployment_key,
                            &query->err) != ERROR_NONE) {
        mem_free_secret(conninfo, strlen(conninfo));
        return query->err.code;
    }
    deployment_key_derive(deployment_key, SERVER_COLUMN_KEY, &column_key);
    deployment_key_destroy(deployment_key);
    storage_settings_write(storage_settings_of(config), settings);
    query->loop = loop_create("command", 0);
    // What commands change is the operator's doing.
    AUTO_FREE char *with_actor = mem_printf("%s app.actor={\"kind\":\"command\"}", settings);
    query->pg = pg_create(query->loop, &(struct pg_options){
                                           .conninfo = conninfo,
                                           .connections = 1,
                                           .column_key = &column_key,
                                           .queue_max = QUEUE_MAX,
                                           .statement_timeout_ms = (uint64_t)database->statement_timeout_ms,
                                           .settings = with_actor,
                                       });
    purpose_key_finish(&column_key);
    timer_init(&query->timer, loop_uv(query->loop), on_deadline, query);
    timer_start(&query->timer, query->deadline_ms + 1000, 0);
    fn(query, arg);
    loop_run(query->loop);
    loop_destroy(query->loop);
    mem_free_secret(conninfo, strlen(conninfo));
    return query->err.code;
}
