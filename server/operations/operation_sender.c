#include "server/operations/operation_sender.h"

#include <stdio.h>

#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "storage/operations/operation_delivery.h"
#include "tunnel/wire/control.h"

enum {
    NOTES_MAX = 512,      // that may wait for PostgreSQL; what finds no room is asked for again
    GRACE_MS = 60 * 1000, // an agent may answer so long after the expiry
};

// What an agent reported.
struct note {
    struct note *next;
    char account_id[sizeof((struct tunnel_identity *)0)->account_id];
    char runtime[sizeof((struct tunnel_identity *)0)->runtime];
    char operation_id[WIRE_CONTROL_ID_BYTES_MAX + 1], code[WIRE_CONTROL_ID_BYTES_MAX + 1];
    char message[WIRE_CONTROL_TEXT_BYTES_MAX + 1];
    const char *state;
    uint64_t epoch;
};

struct operation_sender {
    struct operation_sender_options options;
    struct timer timer;
    bool asking, again, stopped;
    struct note *first, **last; // in their order
    size_t note_count;
    bool writing; // the first one
    struct metric_family *sent, *reported;
    struct metric *dropped;
};

static void ask(struct operation_sender *sender);

static void on_timer(void *arg)
{
    ask(arg);
}

struct operation_sender *operation_sender_create(struct loop *loop, const struct operation_sender_options *options)
{
    struct operation_sender *sender = mem_zalloc(sizeof *sender);
    sender->options = *options;
    sender->last = &sender->first;
    sender->sent =
        metrics_counter("culvert_operations_sent_total",
                        "Operations sent to agents, again: a repetition of one that was not answered.", "kind", NULL);
    sender->reported =
        metrics_counter("culvert_operations_reported_total", "What agents reported of operations.", "state", NULL);
    sender->dropped =
        metric_with(metrics_counter("culvert_operation_reports_dropped_total",
                                    "Reports of operations that found no room; they are requested again.", NULL));
    timer_init(&sender->timer, loop_uv(loop), on_timer, sender);
    if (options->sends) timer_start(&sender->timer, options->interval_ms, options->interval_ms);
    return sender;
}

void operation_sender_stop(struct operation_sender *sender)
{
    if (!sender) return;
    sender->stopped = true;
    timer_stop(&sender->timer);
}

void operation_sender_destroy(struct operation_sender *sender)
{
    if (!sender) return;
    while (sender->first) {
        struct note *note = sender->first;
        sender->first = note->next;
        mem_free(note);
    }
    timer_finish(&sender->timer);
    mem_free(sender);
}

// ---- sending ------------------------------------------------------------------------------------

static void on_due(void *arg, const struct error *err, const struct operation_due *due, size_t count)
{
    struct operation_sender *sender = arg;
    sender->asking = false;
    if (err && err->code != ERROR_CANCELLED) log_debug("operations", "not_claimed", log_err(err));
    for (size_t i = 0; i < count && !sender->stopped; i++) {
        const struct tunnel_operation operation = {.account_id = due[i].account_id,
                                                   .runtime = due[i].runtime,
                                                   .operation_id = due[i].operation_id,
                                                   .document = due[i].document,
                                                   .epoch = due[i].epoch,
                                                   .attempt = due[i].attempt,
                                                   .ttl_ms = due[i].ttl_ms};
        if (!tunnel_broker_operate(sender->options.broker, &operation)) continue; // later
        metric_add(metric_with(sender->sent, due[i].attempt > 1 ? "again" : "first"), 1);
        log_debug("operations", "sent", log_str("operation", due[i].operation_id), log_uint("attempt", due[i].attempt));
    }
    bool more = sender->again || count == sender->options.rows;
    sender->again = false;
    if (more && !sender->stopped) ask(sender);
}

static void ask(struct operation_sender *sender)
{
    const struct operation_sender_options *options = &sender->options;
    if (sender->stopped) return;
    if (sender->asking) {
        sender->again = true;
        return;
    }
    sender->asking = true;
    operation_delivery_claim(options->pg,
                             &(struct operation_claim){.replica = options->replica,
                                                       .resend_ms = options->resend_ms,
                                                       .grace_ms = GRACE_MS,
                                                       .run_ms = options->run_ms,
                                                       .rows = options->rows},
                             on_due, sender);
}

void operation_sender_wake(struct operation_sender *sender)
{
    if (sender && sender->options.sends) ask(sender);
}

// ---- reports of agents --------------------------------------------------------------------------

static void write_next(struct operation_sender *sender);

static void on_noted(void *arg, const struct error *err, uint64_t count)
{
    struct operation_sender *sender = arg;
    struct note *note = sender->first;
    sender->writing = false;
    sender->first = note->next;
    if (!sender->first) sender->last = &sender->first;
    sender->note_count--;
    if (err && err->code != ERROR_CANCELLED)
        log_debug("operations", "not_noted", log_err(err)); // it is asked for again
    if (!err && count) metric_add(metric_with(sender->reported, note->state), 1);
    mem_free(note);
    if (!sender->stopped) write_next(sender);
}

static void write_next(struct operation_sender *sender)
{
    const struct note *note = sender->first;
    if (!note || sender->writing || sender->stopped) return;
    sender->writing = true;
    operation_delivery_note(sender->options.pg,
                            &(struct operation_note){.account_id = note->account_id,
                                                     .runtime = str_c(note->runtime),
                                                     .operation_id = str_c(note->operation_id),
                                                     .state = str_c(note->state),
                                                     .code = str_c(note->code),
                                                     .message = str_c(note->message),
                                                     .epoch = note->epoch},
                            on_noted, sender);
}

static const char *state_name(uint64_t state)
{
    static const char *const names[] = {[WIRE_OPERATION_ACCEPTED] = "ACCEPTED",
                                        [WIRE_OPERATION_RUNNING] = "RUNNING",
                                        [WIRE_OPERATION_DONE] = "DONE",
                                        [WIRE_OPERATION_FAILED] = "FAILED",
                                        [WIRE_OPERATION_UNKNOWN] = "UNKNOWN"};
    return state < sizeof names / sizeof *names ? names[state] : NULL;
}

void operation_sender_take(struct operation_sender *sender, const struct tunnel_session_info *session,
                           const struct wire_control *control)
{
    const char *state = state_name(control->state);
    if (sender->stopped || !state) return; // of a newer agent
    if (sender->note_count == NOTES_MAX) {
        metric_add(sender->dropped, 1);
        return;
    }
    struct note *note = mem_zalloc(sizeof *note);
    note->state = state;
    note->epoch = session->epoch;
    snprintf(note->account_id, sizeof note->account_id, "%s", session->identity.account_id);
    snprintf(note->runtime, sizeof note->runtime, "%s", session->identity.runtime);
    snprintf(note->operation_id, sizeof note->operation_id, "%.*s", STR_ARG(control->operation));
    snprintf(note->code, sizeof note->code, "%.*s", STR_ARG(control->code));
    snprintf(note->message, sizeof note->message, "%.*s", STR_ARG(control->reason));
    *sender->last = note;
    sender->last = &note->next;
    sender->note_count++;
    write_next(sender);
}
