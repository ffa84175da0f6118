#include "server/intake/live_updates.h"

#include <stdio.h>

#include "base/strbuf.h"

enum { MESSAGE_BYTES_MAX = 512 * 1024 };

static void add_change(struct strbuf *out, const struct report *report)
{
    static const char *const names[] = {"group", "version", "kind", "runtime", "namespace", "name"};
    const struct str values[] = {report->group,   report->version, report->kind,
                                 report->runtime, report->ns,      report->name};
    strbuf_add_c(out, str_ends(strbuf_str(out), STR("[")) ? "{" : ",{");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strbuf_addf(out, "\"%s\":", names[i]);
        strbuf_add_json(out, values[i]);
        strbuf_add_byte(out, ',');
    }
    strbuf_addf(out, "\"event\":\"%s\"}", report->type == REPORT_DELETED ? "DELETED" : "UPDATED");
}

void live_updates_publish(struct redis *redis, const struct report *reports, const struct report_outcome *outcomes,
                          size_t count)
{
    if (!redis || !redis_is_ready(redis)) return;
    struct strbuf message;
    strbuf_init(&message, MESSAGE_BYTES_MAX);
    strbuf_add_c(&message, "{\"changes\":[");
    size_t changes = 0;
    for (size_t i = 0; i < count; i++) {
        bool entity = reports[i].type == REPORT_OBJECT || reports[i].type == REPORT_DELETED;
        if (!entity || outcomes[i].result != REPORT_APPLIED) continue;
        add_change(&message, &reports[i]);
        changes++;
    }
    strbuf_add_c(&message, "]}");
    if (changes && !message.overflow) {
        char channel[128];
        int n = snprintf(channel, sizeof channel, "culvert:changes:%.*s", STR_ARG(reports[0].account_id));
        const struct str words[] = {STR("PUBLISH"), str_of(channel, (size_t)n), strbuf_str(&message)};
        redis_command(redis, 3, words, NULL, NULL);
    }
    strbuf_finish(&message);
}
