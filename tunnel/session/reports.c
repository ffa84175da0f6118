#include "tunnel/session/reports.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "tunnel/call/stream.h"
#include "tunnel/wire/digest.h"
#include "tunnel/wire/handshake.h"

enum {
    RECORD_BYTES_MAX = 4 + WIRE_REPORT_RECORD_BYTES_MAX,
    // What may arrive while the consumer is full, on top of one unfinished record.
    BUFFER_BYTES_MAX = RECORD_BYTES_MAX + WIRE_WINDOW_BYTES_MAX,
    ACKS_UNSENT_MAX = 64 * 1024,
    REOPEN_MS = 5000,
    // A record longer than this is put together only once its whole length fits into the node's part for such records.
    RECORD_FREE_BYTES = 256 * 1024,
    RECORD_STALL_MS = 60000, // without a byte of a record that has its place
};

struct tunnel_reports {
    struct tunnel_session *session;
    struct tunnel_stream *stream; // NULL: not open
    struct byte_queue buffer;     // the head of a record that is not complete yet, or all there is while paused
    size_t wanted;                // bytes the record at the front needs, as far as known
    size_t uncredited;            // of the buffer, while paused
    size_t unsent;                // acknowledgements in the stream's queue
    size_t counted;               // of the buffer, in the budgets
    size_t promised;              // of the node's part for long records
    bool waits;                   // for that part: nothing is credited
    uint64_t arrived_at_ms;
    bool hello, paused;
    bool ack_waiting; // one that had no room; newer ones of its kind replace it
    uint64_t ack_sequence;
    uint64_t reopen_at_ms; // 0: not wanted
};

static void reports_break(struct tunnel_reports *reports, const char *text)
{
    tunnel_session_break(reports->session, "reports: %s", text);
}

static void reports_credit(struct tunnel_reports *reports, size_t len)
{
    if (reports->stream) tunnel_stream_consumed(reports->stream, len);
}

// What is in the buffer and was credited counts here; the rest counts as the stream's, unconsumed.
static void reports_count(struct tunnel_reports *reports)
{
    struct tunnel_session *session = reports->session;
    size_t now = reports->buffer.len > reports->uncredited ? reports->buffer.len - reports->uncredited : 0;
    int64_t by = (int64_t)now - (int64_t)reports->counted;
    if (by == 0) return;
    session->buffered_bytes = (uint64_t)((int64_t)session->buffered_bytes + by);
    session->node->buffered_bytes = (uint64_t)((int64_t)session->node->buffered_bytes + by);
    metric_move(session->node->broker->meter.buffered_reports, by);
    reports->counted = now;
}

static void reports_release_place(struct tunnel_reports *reports)
{
    reports->session->node->record_bytes -= reports->promised;
    reports->promised = 0;
    reports->waits = false;
}

// A place for the record at the front. Agents may send records of 10 MiB, and thousands of them at once would be more
// than there is; so long ones wait for each other. The first one always has a place, whatever the budget.
static bool reports_has_place(struct tunnel_reports *reports)
{
    struct tunnel_node *node = reports->session->node;
    if (reports->wanted <= RECORD_FREE_BYTES || reports->promised) return true;
    uint64_t most = node->broker->options.node_buffered_bytes_max / 2;
    if (node->record_bytes && node->record_bytes + reports->wanted > most) return false;
    node->record_bytes += reports->promised = reports->wanted;
    return true;
}

// False: broken. One record is handed over.
static bool reports_deliver(struct tunnel_reports *reports, const struct wire_report *report)
{
    struct tunnel_session *session = reports->session;
    const struct tunnel_options *options = &session->node->broker->options;
    if (reports->hello == (report->type == WIRE_REPORT_HELLO)) {
        reports_break(reports, reports->hello ? "a second HELLO" : "the first record must be HELLO");
        return false;
    }
    reports->hello = true;
    metric_add(session->node->broker->meter.reports, 1);
    if (!options->on_report(options->ctx, session->node, &session->entry->info, report)) reports->paused = true;
    return true;
}

// Hands over the complete records of at..len; gives back how many bytes they were.
static size_t reports_decode(struct tunnel_reports *reports, const uint8_t *at, size_t len)
{
    size_t used = 0;
    while (!reports->paused && used < len && !reports->session->broken[0] && reports->session->entry) {
        struct wire_report report;
        struct error err;
        size_t record = 0;
        enum error_code code = wire_report_decode(at + used, len - used, &report, &record, &err);
        if (code == ERROR_AGAIN) {
            reports->wanted = record;
            break;
        }
        if (code) {
            reports_break(reports, err.text);
            break;
        }
        used += record;
        reports->wanted = 0;
        reports_release_place(reports);
        if (!reports_deliver(reports, &report)) break;
    }
    return used;
}

static void reports_keep(struct tunnel_reports *reports, const uint8_t *at, size_t len)
{
    if (!byte_queue_add(&reports->buffer, at, len)) reports_break(reports, "more bytes than credit");
}

static void reports_drain_buffer(struct tunnel_reports *reports)
{
    size_t used = reports_decode(reports, byte_queue_front(&reports->buffer), reports->buffer.len);
    byte_queue_drop(&reports->buffer, used);
}

// Gives back what need not be withheld. While the consumer is full that is what it took; else everything, because an
// unfinished record may be longer than any window, if it has its place.
static void reports_settle(struct tunnel_reports *reports)
{
    size_t keep = 0;
    reports->waits = !reports->paused && !reports_has_place(reports);
    if (reports->paused || reports->waits) keep = reports->buffer.len;
    if (keep < reports->uncredited) {
        size_t credit = reports->uncredited - keep;
        reports->uncredited = keep;
        reports_credit(reports, credit);
    }
    reports_count(reports);
    if (reports->waits || reports->promised) tunnel_session_wake(reports->session);
}

static void reports_on_data(void *arg, const uint8_t *at, size_t len)
{
    struct tunnel_reports *reports = arg;
    reports->arrived_at_ms = clock_mono_ms();
    reports->uncredited += len;
    if (reports->paused) {
        reports_keep(reports, at, len);
    } else if (reports->buffer.len == 0) {
        size_t used = reports_decode(reports, at, len);
        reports_keep(reports, at + used, len - used);
    } else {
        reports_keep(reports, at, len);
        if (reports->buffer.len >= reports->wanted) reports_drain_buffer(reports);
    }
    reports_settle(reports);
}

void tunnel_reports_go_on(struct tunnel_reports *reports)
{
    if (!reports->paused) return;
    reports->paused = false;
    if (reports->buffer.len) reports_drain_buffer(reports);
    reports_settle(reports);
}

// ---- acknowledgements ----------------------------------------------------------------------------------------

static void reports_write_ack(struct tunnel_reports *reports, const struct wire_ack *ack)
{
    struct strbuf text;
    strbuf_init(&text, 4 + 10 + DIGEST_ANSWER_BYTES_MAX);
    if (wire_ack_encode(ack, &text, NULL) == ERROR_NONE) {
        reports->unsent += text.len;
        tunnel_stream_write(reports->stream, text.at, text.len);
    }
    strbuf_finish(&text);
}

void tunnel_reports_send_ack(struct tunnel_reports *reports, const struct wire_ack *ack)
{
    if (!reports->stream) return; // the agent sends again what was not acknowledged
    if (ack->type == WIRE_ACK && reports->unsent >= ACKS_UNSENT_MAX) {
        if (!reports->ack_waiting || ack->sequence > reports->ack_sequence) reports->ack_sequence = ack->sequence;
        reports->ack_waiting = true;
        return;
    }
    if (reports->unsent >= 4 * ACKS_UNSENT_MAX) {
        reports_break(reports, "acknowledgements are not read");
        return;
    }
    reports_write_ack(reports, ack);
}

static void reports_on_taken(void *arg, size_t len)
{
    struct tunnel_reports *reports = arg;
    reports->unsent -= len;
    if (!reports->ack_waiting || reports->unsent >= ACKS_UNSENT_MAX) return;
    reports->ack_waiting = false;
    reports_write_ack(reports, &(struct wire_ack){.type = WIRE_ACK, .sequence = reports->ack_sequence});
}

// ---- the stream ----------------------------------------------------------------------------------------------

static void reports_on_head(void *arg, int status, const struct http_header *headers, size_t count)
{
    (void)headers;
    (void)count;
    struct tunnel_reports *reports = arg;
    if (status == 200) return;
    // An agent without a reporter: it carries calls all the same, and is not asked again.
    const struct tunnel_session_info *info = &reports->session->entry->info;
    log_limited(LOG_INFO, "tunnel", "reports_refused", str_c(info->identity.account_id), str_c(info->identity.runtime),
                log_c("runtime", info->identity.runtime), log_int("status", status));
    tunnel_stream_cancel(reports->stream);
    reports->stream = NULL;
}

// What has arrived of it is of no use without the rest.
static void reports_forget(struct tunnel_reports *reports)
{
    byte_queue_finish(&reports->buffer);
    reports->uncredited = reports->wanted = 0;
    reports_release_place(reports);
    reports_count(reports);
}

static void reports_on_gone(struct tunnel_reports *reports)
{
    reports->stream = NULL;
    reports_forget(reports);
    if (reports->session->state != TUNNEL_SESSION_OPEN) return;
    reports->reopen_at_ms = clock_mono_ms() + REOPEN_MS;
    tunnel_session_wake(reports->session);
}

static void reports_on_end(void *arg)
{
    reports_on_gone(arg);
}

static void reports_on_fail(void *arg, enum tunnel_cause cause, const char *detail)
{
    struct tunnel_reports *reports = arg;
    if (cause == TUNNEL_CAUSE_NOT_ALLOWED || cause == TUNNEL_CAUSE_NO_ROUTE) {
        reports->stream = NULL;
        reports_forget(reports);
        return;
    }
    log_debug("tunnel", "reports_ended", log_c("detail", detail));
    reports_on_gone(reports);
}

static void reports_open(struct tunnel_reports *reports)
{
    static const struct exchange_events exchange = {.on_head = reports_on_head,
                                                    .on_data = reports_on_data,
                                                    .on_taken = reports_on_taken,
                                                    .on_end = reports_on_end,
                                                    .on_fail = reports_on_fail};
    static const struct tunnel_stream_events events = {.exchange = &exchange};
    const struct http_header headers[] = {{STR(WIRE_HEADER_DIGEST), STR(WIRE_DIGEST_VERSION)},
                                          {STR(WIRE_HEADER_DETAILS), STR(WIRE_DETAILS_VERSION)},
                                          {STR(WIRE_HEADER_KUBERNETES_EVENTS), STR(WIRE_KUBERNETES_EVENTS_VERSION)}};
    const struct tunnel_request request = {.method = STR("POST"),
                                           .path = STR(WIRE_REPORTS_PATH),
                                           .authority = STR("culvert"),
                                           .headers = headers,
                                           .header_count = sizeof headers / sizeof *headers};
    enum tunnel_cause cause;
    reports_forget(reports);
    reports->hello = false;
    reports->paused = false;
    reports->ack_waiting = false;
    reports->unsent = 0;
    reports->reopen_at_ms = 0;
    struct error err;
    reports->stream = tunnel_stream_open(reports->session, &request, true, &events, reports, &cause, &err);
    if (!reports->stream) log_warn("tunnel", "reports_not_opened", log_err(&err));
}

struct tunnel_reports *tunnel_reports_create(struct tunnel_session *session)
{
    struct tunnel_reports *reports = mem_zalloc(sizeof(*reports));
    reports->session = session;
    byte_queue_init(&reports->buffer, BUFFER_BYTES_MAX);
    reports_open(reports);
    return reports;
}

void tunnel_reports_destroy(struct tunnel_reports *reports)
{
    if (!reports) return;
    if (reports->stream) tunnel_stream_cancel(reports->stream);
    reports_forget(reports);
    mem_free(reports);
}

bool tunnel_reports_want_tick(const struct tunnel_reports *reports)
{
    return reports && (reports->reopen_at_ms || reports->waits || reports->promised);
}

void tunnel_reports_tick(struct tunnel_reports *reports, uint64_t now_ms)
{
    if (reports->reopen_at_ms && now_ms >= reports->reopen_at_ms) reports_open(reports);
    if (reports->waits) reports_settle(reports); // there may be a place now
    if (reports->promised && !reports->paused && now_ms >= reports->arrived_at_ms + RECORD_STALL_MS)
        reports_break(reports, "a record is not completed");
}
