// reports: the platform's end of a session's reports stream: it opens `POST /culvert/reports` once
// the session is open, puts the response body's bytes together to records (tunnel/wire/report.h)
// and hands them over one by one; the request body carries the acknowledgements. Back-pressure is
// HTTP/2's: while the consumer is full, no credit goes back. Private to tunnel/. Owned by its
// session, on the session's loop.
#ifndef CULVERT_TUNNEL_SESSION_REPORTS_H
#define CULVERT_TUNNEL_SESSION_REPORTS_H

#include "tunnel/session/session.h"

struct tunnel_reports;

struct tunnel_reports *tunnel_reports_create(struct tunnel_session *session); // opens the stream
void tunnel_reports_destroy(struct tunnel_reports *reports);                  // NULL is fine; cancels the stream
void tunnel_reports_send_ack(struct tunnel_reports *reports, const struct wire_ack *ack);
void tunnel_reports_go_on(struct tunnel_reports *reports);
bool tunnel_reports_want_tick(const struct tunnel_reports *reports);       // NULL is fine
void tunnel_reports_tick(struct tunnel_reports *reports, uint64_t now_ms); // opens it anew after it failed

#endif
