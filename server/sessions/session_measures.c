#include "server/sessions/session_measures.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

static void write_session(struct strbuf *out, const struct tunnel_session_info *session)
{
    strbuf_add_c(out, "{\"a\":");
    strbuf_add_json(out, str_c(session->identity.account_id));
    strbuf_add_c(out, ",\"r\":");
    strbuf_add_json(out, str_c(session->identity.runtime));
    strbuf_addf(out, ",\"e\":%" PRIu64 ",\"t\":%" PRIu64 ",\"s\":%u,\"i\":%" PRIu64 ",\"o\":%" PRIu64 "}",
                session->epoch, session->rtt_us, session->streams_open, session->bytes_in, session->bytes_out);
}

bool session_measures_write(struct session_measures *measures, struct tunnel_broker *broker, struct strbuf *out)
{
    struct tunnel_session_info *sessions = mem_array(SESSION_MEASURES_MAX, sizeof(*sessions));
    size_t count = 0;
    measures->next = tunnel_broker_some_sessions(broker, measures->next, sessions, SESSION_MEASURES_MAX, &count);
    strbuf_add_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i) strbuf_add_byte(out, ',');
        write_session(out, &sessions[i]);
    }
    strbuf_add_byte(out, ']');
    explicit_bzero(sessions, count * sizeof(*sessions));
    mem_free(sessions);
    return count > 0 && !out->overflow;
}
