#include "tests/sim/platform.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "server/intake/intake.h"
#include "tests/sim/ledger.h"
#include "tests/sim/schedule.h"

enum {
    QUEUE_BYTES_MAX = 24 * 1024,
    RECORD_BYTES_MAX = 1024 * 1024,
    LINGER_MS = 6000, // so long the other end may not see that a link was cut
};

struct replica {
    struct platform *platform;
    struct intake *intake; // NULL: down
    struct store_connection *connection;
};

struct platform {
    struct loop *loop;
    struct store *store;
    struct link_events events;
    void *arg;
    struct replica replicas[PLATFORM_REPLICAS];
    struct link *links;
    uint64_t link_ids;
    bool faults;
};

// Bytes on their way.
struct chunk {
    struct chunk *next;
    struct link *link;
    size_t len;
    uint8_t at[];
};

struct pipe {
    struct chunk *first, **last;
    bool is_due;
};

struct link {
    struct platform *platform;
    struct link *next;
    struct replica *replica;
    struct tunnel_session_info session;
    bool is_open, has_agent; // the platform's end; the agent's
    struct pipe up, down;
    size_t window, unread; // bytes written and not taken
    bool is_full;
    // The platform's end.
    struct strbuf buffer;
    bool is_paused, has_hello, is_draining;
    uint64_t *taken; // sequences of records to be acknowledged
    size_t taken_count, acknowledged;
    uint64_t last_taken;
};

// ---- bytes ------------------------------------------------------------------------------------

static void pipe_schedule(struct link *link, struct pipe *pipe, timer_fn fn)
{
    if (pipe->is_due || !pipe->first) return;
    pipe->is_due = true;
    schedule_after(schedule_spread(0, link->platform->faults ? 600 : 10), fn, pipe->first);
}

static void pipe_add(struct link *link, struct pipe *pipe, const void *at, size_t len, timer_fn fn)
{
    const uint8_t *from = at;
    while (len > 0) {
        size_t part = len > 1 && schedule_percent(20) ? 1 + (size_t)schedule_below(len) : len;
        struct chunk *chunk = mem_alloc(sizeof *chunk + part);
        chunk->next = NULL;
        chunk->link = link;
        chunk->len = part;
        memcpy(chunk->at, from, part);
        *pipe->last = chunk;
        pipe->last = &chunk->next;
        from += part;
        len -= part;
    }
    pipe_schedule(link, pipe, fn);
}

static void pipe_drop_first(struct pipe *pipe)
{
    struct chunk *chunk = pipe->first;
    pipe->first = chunk->next;
    if (!pipe->first) pipe->last = &pipe->first;
    schedule_forget(chunk);
    mem_free(chunk);
}

static void pipe_clear(struct pipe *pipe)
{
    while (pipe->first)
        pipe_drop_first(pipe);
    pipe->is_due = false;
}

// ---- the platform's end -----------------------------------------------------------------------

static void take_record(struct link *link, const struct wire_report *record)
{
    if (record->type == WIRE_REPORT_HELLO) {
        if (link->has_hello) ledger_violation("a second HELLO");
        link->has_hello = true;
        return;
    }
    if (!link->has_hello) ledger_violation("the first record is no HELLO");
    if (record->type != WIRE_REPORT_DIGEST) {
        link->taken = mem_realloc(link->taken, (link->taken_count + 1) * sizeof *link->taken);
        link->taken[link->taken_count++] = record->sequence;
    }
    link->last_taken = record->sequence;
    if (!intake_take_tunnel(link->replica->intake, &link->session, record)) link->is_paused = true;
}

static void take_bytes(struct link *link)
{
    size_t used = 0;
    link->is_draining = true;
    while (link->is_open && !link->is_paused && used < link->buffer.len) {
        struct wire_report record;
        struct error err;
        size_t bytes = 0;
        enum error_code code =
            wire_report_decode((const uint8_t *)link->buffer.at + used, link->buffer.len - used, &record, &bytes, &err);
        if (code == ERROR_AGAIN) break;
        if (code != ERROR_NONE) {
            ledger_violation("a record cannot be read: %s", err.text);
            break;
        }
        take_record(link, &record);
        used += bytes;
    }
    link->is_draining = false;
    strbuf_drop_front(&link->buffer, used);
    link->unread -= used < link->unread ? used : link->unread;
    if (!link->is_full || link->unread > link->window / 2) return;
    link->is_full = false;
    if (link->has_agent) link->platform->events.on_writable(link->platform->arg, link);
}

static void on_up(void *arg)
{
    struct chunk *chunk = arg;
    struct link *link = chunk->link;
    link->up.is_due = false;
    if (link->is_open && !strbuf_add(&link->buffer, chunk->at, chunk->len)) ledger_violation("a record is too long");
    pipe_drop_first(&link->up);
    pipe_schedule(link, &link->up, on_up);
    if (link->is_open && !link->is_paused) take_bytes(link);
}

// ---- the agent's end --------------------------------------------------------------------------

static void on_down(void *arg)
{
    struct chunk *chunk = arg;
    struct link *link = chunk->link;
    struct platform *platform = link->platform;
    link->down.is_due = false;
    uint8_t *copy = mem_dup(chunk->at, chunk->len);
    size_t len = chunk->len;
    pipe_drop_first(&link->down);
    pipe_schedule(link, &link->down, on_down);
    if (link->has_agent) platform->events.on_bytes(platform->arg, link, copy, len);
    mem_free(copy);
}

static bool sink_write(void *arg, const void *at, size_t len)
{
    struct link *link = arg;
    link->unread += len;
    link->is_full = link->unread >= link->window;
    pipe_add(link, &link->up, at, len, on_up);
    return !link->is_full;
}

static void sink_fail(void *arg)
{
    (void)arg;
    ledger_violation("the agent cannot read what the platform sends");
}

void link_sink(struct link *link, struct report_sink *out)
{
    *out = (struct report_sink){.write = sink_write, .fail = sink_fail, .arg = link};
}

// ---- answers of the intake --------------------------------------------------------------------

static struct link *find_link(struct replica *replica, struct tunnel_session_ref ref)
{
    struct link *link = replica->platform->links;
    while (link && (link->session.ref.id != ref.id || !link->is_open))
        link = link->next;
    return link;
}

static void check_ack(struct link *link, uint64_t sequence)
{
    if (sequence > link->last_taken)
        ledger_violation("acknowledged is applied: %llu is acknowledged, %llu was the last one",
                         (unsigned long long)sequence, (unsigned long long)link->last_taken);
    for (; link->acknowledged < link->taken_count && link->taken[link->acknowledged] <= sequence; link->acknowledged++)
        if (!ledger_is_committed(link->session.epoch, link->taken[link->acknowledged]))
            ledger_violation("acknowledged is applied: (%llu, %llu) is acknowledged and not committed",
                             (unsigned long long)link->session.epoch,
                             (unsigned long long)link->taken[link->acknowledged]);
}

static void on_ack(void *ctx, struct tunnel_session_ref ref, const struct wire_ack *ack)
{
    struct link *link = find_link(ctx, ref);
    if (!link) return;
    if (ack->type == WIRE_ACK) check_ack(link, ack->sequence);
    if (ack->type == WIRE_ACK_REJECT)
        ledger_violation("a record is refused: %.*s", STR_ARG(str_first(ack->reason, 200)));
    struct strbuf text;
    strbuf_init(&text, RECORD_BYTES_MAX);
    struct error err;
    if (wire_ack_encode(ack, &text, &err) != ERROR_NONE) ledger_violation("an acknowledgement: %s", err.text);
    if (link->has_agent) pipe_add(link, &link->down, text.at, text.len, on_down);
    strbuf_finish(&text);
}

static void on_resume(void *ctx, struct tunnel_session_ref ref)
{
    struct link *link = find_link(ctx, ref);
    if (!link || !link->is_paused) return;
    link->is_paused = false;
    if (!link->is_draining) take_bytes(link);
}

static void on_abuse(void *ctx, struct tunnel_session_ref ref, const char *reason)
{
    (void)ctx;
    (void)ref;
    ledger_violation("the platform calls it abuse: %s", reason);
}

// ---- opening and closing ----------------------------------------------------------------------

static void link_free_closed(struct link *link)
{
    if (link->is_open || link->has_agent) return;
    struct link **at = &link->platform->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    schedule_forget(link);
    pipe_clear(&link->up);
    pipe_clear(&link->down);
    strbuf_finish(&link->buffer);
    mem_free(link->taken);
    mem_free(link);
}

static void close_agents_end(struct link *link)
{
    if (!link->has_agent) return;
    link->has_agent = false;
    pipe_clear(&link->down);
    link->platform->events.on_closed(link->platform->arg, link);
}

static void close_platforms_end(struct link *link)
{
    if (!link->is_open) return;
    link->is_open = false;
    pipe_clear(&link->up);
    if (link->replica->intake) intake_forget_session(link->replica->intake, link->session.ref);
}

static void on_agent_sees(void *arg)
{
    close_agents_end(arg);
    link_free_closed(arg);
}

static void on_platform_sees(void *arg)
{
    close_platforms_end(arg);
    link_free_closed(arg);
}

static void on_superseded(void *arg)
{
    struct link *link = arg;
    close_platforms_end(link);
    schedule_after(schedule_spread(0, LINGER_MS), on_agent_sees, link);
    link_free_closed(link);
}

static void on_accepted(void *arg)
{
    struct link *link = arg;
    struct platform *platform = link->platform;
    if (!link->is_open || !link->has_agent) return;
    link->session.epoch = store_next_epoch(platform->store);
    for (struct link *older = platform->links; older; older = older->next)
        if (older != link && older->is_open && older->session.epoch)
            schedule_after(schedule_spread(0, LINGER_MS), on_superseded, older);
    platform->events.on_open(platform->arg, link);
}

struct link *link_dial(struct platform *platform)
{
    unsigned up = 0, which[PLATFORM_REPLICAS];
    for (unsigned i = 0; i < PLATFORM_REPLICAS; i++)
        if (platform->replicas[i].intake) which[up++] = i;
    if (!up) return NULL;
    struct link *link = mem_zalloc(sizeof *link);
    unsigned index = which[schedule_below(up)];
    link->platform = platform;
    link->replica = &platform->replicas[index];
    link->session.ref = (struct tunnel_session_ref){index, ++platform->link_ids};
    memcpy(link->session.identity.account_id, "account", sizeof "account");
    memcpy(link->session.identity.runtime, "runtime", sizeof "runtime");
    link->is_open = link->has_agent = true;
    link->window = schedule_percent(30) ? 1024 : 64 * 1024;
    link->up.last = &link->up.first;
    link->down.last = &link->down.first;
    strbuf_init(&link->buffer, RECORD_BYTES_MAX);
    link->next = platform->links;
    platform->links = link;
    schedule_after(schedule_spread(0, 200), on_accepted, link);
    return link;
}

void link_abandon(struct link *link)
{
    link->has_agent = false;
    pipe_clear(&link->down);
    schedule_after(schedule_spread(0, LINGER_MS), on_platform_sees, link);
}

void platform_cut(struct platform *platform)
{
    struct link *link = platform->links;
    for (uint64_t skip = schedule_below(4); skip && link; skip--)
        link = link->next;
    if (!link) return;
    bool agent_first = schedule_percent(50);
    schedule_after(agent_first ? 0 : schedule_spread(0, LINGER_MS), on_agent_sees, link);
    schedule_after(agent_first ? schedule_spread(0, LINGER_MS) : 0, on_platform_sees, link);
}

// ---- replicas ---------------------------------------------------------------------------------

bool platform_is_up(const struct platform *platform, unsigned replica)
{
    return platform->replicas[replica].intake != NULL;
}

void platform_start(struct platform *platform, unsigned index)
{
    struct replica *replica = &platform->replicas[index];
    assert(!replica->intake);
    replica->connection = store_connect(platform->store);
    replica->intake =
        intake_create(platform->loop, &(struct intake_options){.store = &store_functions,
                                                               .pg = store_connection_pg(replica->connection),
                                                               .batch_count = 1 + schedule_below(8),
                                                               .batch_bytes = 64 * 1024,
                                                               .batch_delay_ms = schedule_below(30),
                                                               .queue_bytes_max = QUEUE_BYTES_MAX,
                                                               .account_share = 100,
                                                               .runtime_share = 100,
                                                               .transactions_max = 4});
    intake_set_sessions(replica->intake, &(struct intake_sessions){on_ack, on_resume, on_abuse, replica});
}

void platform_kill(struct platform *platform, unsigned index)
{
    struct replica *replica = &platform->replicas[index];
    struct intake *intake = replica->intake;
    intake_set_sessions(intake, NULL);
    replica->intake = NULL;
    for (struct link *link = platform->links, *next; link; link = next) {
        next = link->next;
        if (link->replica != replica || !link->is_open) continue;
        close_platforms_end(link);
        schedule_after(schedule_spread(0, LINGER_MS), on_agent_sees, link);
        link_free_closed(link);
    }
    intake_stop(intake);
    store_disconnect(replica->connection);
    intake_destroy(intake);
    store_connection_free(replica->connection);
}

bool platform_is_idle(const struct platform *platform)
{
    for (unsigned i = 0; i < PLATFORM_REPLICAS; i++)
        if (platform->replicas[i].intake && !intake_is_idle(platform->replicas[i].intake)) return false;
    return true;
}

void platform_set_faults(struct platform *platform, bool faults)
{
    platform->faults = faults;
}

struct platform *platform_create(struct loop *loop, struct store *store, const struct link_events *events, void *arg)
{
    struct platform *platform = mem_zalloc(sizeof *platform);
    platform->loop = loop;
    platform->store = store;
    platform->events = *events;
    platform->arg = arg;
    for (unsigned i = 0; i < PLATFORM_REPLICAS; i++) {
        platform->replicas[i].platform = platform;
        platform_start(platform, i);
    }
    return platform;
}

void platform_destroy(struct platform *platform)
{
    for (unsigned i = 0; i < PLATFORM_REPLICAS; i++)
        if (platform->replicas[i].intake) platform_kill(platform, i);
    while (platform->links) {
        struct link *link = platform->links;
        link->is_open = link->has_agent = false;
        link_free_closed(link);
    }
    mem_free(platform);
}
