// A session's epoch: asked for when it opens, and time and again while it is a standby.
#include "base/clock.h"
#include "base/log/log.h"
#include "tunnel/session/session.h"

enum {
    STANDBY_ASK_MS = 3000, // a standby asks for an epoch after one to two of these,
    STANDBY_SOON_MS = 100, // and when who served has gone after this, twice, four times... it:
    STANDBY_ASKS_SOON = 6, // may not be written to PostgreSQL yet
};

void tunnel_session_ask_epoch(struct tunnel_session *session)
{
    const struct tunnel_options *options = &session->node->broker->options;
    struct tunnel_session_info info;
    tunnel_entry_snapshot(session->entry, &info);
    info.stands_by = session->state == TUNNEL_SESSION_STANDBY;
    options->on_session_opening(options->ctx, session->node, &info);
    explicit_bzero(&info, sizeof(info));
}

static uint64_t session_standby_wait_ms(struct tunnel_session *session)
{
    if (!session->asks_soon) return STANDBY_ASK_MS + id_random_below(STANDBY_ASK_MS);
    return (uint64_t)STANDBY_SOON_MS << (STANDBY_ASKS_SOON - session->asks_soon--);
}

void tunnel_session_stand_by(struct tunnel_session *session)
{
    bool is_new = session->state == TUNNEL_SESSION_OPENING;
    if (!is_new && session->state != TUNNEL_SESSION_STANDBY) return;
    session->asking = false;
    session->ask_at_ms = clock_mono_ms() + session_standby_wait_ms(session);
    if (is_new) {
        tunnel_session_set_state(session, TUNNEL_SESSION_STANDBY);
        tunnel_directory_stand_by(session->node->broker->directory, session->entry, true);
        metric_add(session->node->broker->meter.flaps, 1);
        log_warn("tunnel", "session_standby", log_c("account", session->entry->info.identity.account_id),
                 log_c("runtime", session->entry->info.identity.runtime),
                 log_c("instance", session->entry->info.instance_id),
                 log_c("hint",
                       "agents with the same token keep replacing each other: one serves, the others are on standby"));
        tunnel_session_send_control(
            session,
            &(struct wire_control){.type = WIRE_CONTROL_STANDBY, .reason = STR("another agent serves this runtime")});
    }
    tunnel_session_wake(session);
}

void tunnel_session_ask_again(struct tunnel_session *session)
{
    if (session->asking || session->node->draining) return;
    session->asking = true;
    tunnel_session_ask_epoch(session);
}

void tunnel_session_wake_standby(struct tunnel_session *session)
{
    if (session->state != TUNNEL_SESSION_STANDBY) return;
    session->asks_soon = STANDBY_ASKS_SOON;
    tunnel_session_ask_again(session);
}
