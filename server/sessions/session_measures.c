#include "server/sessions/session_measures.h"

#include <inttypes.h>

struct part {
    struct strbuf *out;
    size_t from, index, written;
};

static void on_session(void *arg, const struct tunnel_session_info *session)
{
    struct part *part = arg;
    if (session->epoch == 0 || part->index++ < part->from || part->written == SESSION_MEASURES_MAX) return;
    strbuf_addf(part->out, "%s{\"a\":", part->written++ ? "," : "");
    strbuf_add_json(part->out, str_c(session->identity.account_id));
    strbuf_add_c(part->out, ",\"r\":");
    strbuf_add_json(part->out, str_c(session->identity.runtime));
    strbuf_addf(part->out, ",\"e\":%" PRIu64 ",\"t\":%" PRIu64 ",\"s\":%u,\"i\":%" PRIu64 ",\"o\":%" PRIu64 "}",
                session->epoch, session->rtt_us, session->streams_open, session->bytes_in, session->bytes_out);
}

bool session_measures_write(struct session_measures *measures, struct tunnel_broker *broker, struct strbuf *out)
{
    struct part part = {.out = out, .from = measures->next};
    strbuf_add_byte(out, '[');
    tunnel_broker_each_session(broker, on_session, &part);
    strbuf_add_byte(out, ']');
    // Sessions come and go, and the order with them: some are told twice in a round, some only in the next one.
    measures->next = part.from + part.written < part.index ? part.from + part.written : 0;
    return part.written > 0 && !out->overflow;
}
