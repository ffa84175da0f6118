#include "server/intake/resyncs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "server/intake/digest_exchange.h"

enum {
    READERS_MAX = 2,    // trees being read: a scan of 50,000 rows takes a connection for some 50 ms
    HELD_MAX = 256,     // exchanges with a tree, some 100 KB each
    IDLE_MS = 60000,    // without a word an exchange may lose its place to another
    COMPARING_MAX = 64, // LEAVES of one agent that wait for their rows, and the entries in them
    COMPARING_ENTRIES_MAX = 256 * 1024,
};

//   WAITING --there is room--> READING --tree read--> COMPARING --nothing is wanted--> CONFIRMING
//   COMPARING --objects are wanted--> RESTING
//   any state --answered for good, given up, session ended--> freed
enum exchange_state {
    EXCHANGE_WAITING,
    EXCHANGE_READING,    // its tree; holds one of the places from here on
    EXCHANGE_COMPARING,  // branches and leaves
    EXCHANGE_CONFIRMING, // the result is being written to the database: before that it is not sent
    EXCHANGE_RESTING,    // until the agent has sent what was wanted and compares again; holds no place
};

struct exchange {
    struct exchange *next;
    enum exchange_state state;
    uint64_t id;
    struct tunnel_session_ref ref;
    struct tunnel_identity identity;
    uint64_t epoch, sequence; // of the last record
    struct digest_exchange *resync;
    char *unread; // kinds that the agent may not read
    bool differs;
    bool has_wanted; // something that the agent has still to send: nothing is confirmed by it
    bool is_again;   // follows one that rested: what it finds has changed meanwhile
    unsigned comparing, rounds;
    size_t comparing_entries;
    uint64_t started_us, heard_ms;
};

struct resyncs {
    struct resyncs_options options;
    struct exchange *first; // in the order of their beginning
    uint64_t last_id;
    unsigned reading, held;
    struct metric *unchanged, *differences, *full, *later, *bytes_in, *bytes_out, *rounds, *seconds, *wanted, *gone,
        *kept;
};

static void pump(struct resyncs *resyncs);

struct resyncs *resyncs_create(const struct resyncs_options *options)
{
    struct resyncs *resyncs = mem_zalloc(sizeof *resyncs);
    resyncs->options = *options;
    struct metric_family *results =
        metrics_counter("culvert_resyncs_total", "Comparisons of inventories with agents, by result.", "result", NULL);
    resyncs->unchanged = metric_with(results, "unchanged");
    resyncs->differences = metric_with(results, "differences");
    resyncs->full = metric_with(results, "full");
    resyncs->later = metric_with(results, "later");
    struct metric_family *bytes =
        metrics_counter("culvert_resync_bytes_total", "Bytes of digest exchanges.", "dir", NULL);
    resyncs->bytes_in = metric_with(bytes, "in");
    resyncs->bytes_out = metric_with(bytes, "out");
    struct metric_family *objects =
        metrics_counter("culvert_resync_objects_total", "Objects that differed.", "what", NULL);
    resyncs->wanted = metric_with(objects, "wanted");
    resyncs->gone = metric_with(objects, "gone");
    resyncs->kept = metric_with(objects, "kept");
    resyncs->rounds =
        metric_with(metrics_counter("culvert_resync_rounds_total", "Messages of agents in digest exchanges.", NULL));
    resyncs->seconds = metric_with(metrics_histogram("culvert_resync_seconds", "Duration of a digest exchange.", NULL));
    return resyncs;
}

// ---- exchanges -----------------------------------------------------------------------------------------------------

static struct exchange **find_link(struct resyncs *resyncs, struct tunnel_session_ref ref)
{
    struct exchange **link = &resyncs->first;
    while (*link && ((*link)->ref.node != ref.node || (*link)->ref.id != ref.id))
        link = &(*link)->next;
    return link;
}

static struct exchange *find_id(struct resyncs *resyncs, uint64_t id)
{
    struct exchange *exchange = resyncs->first;
    while (exchange && exchange->id != id)
        exchange = exchange->next;
    return exchange;
}

static bool is_held(enum exchange_state state)
{
    return state == EXCHANGE_READING || state == EXCHANGE_COMPARING || state == EXCHANGE_CONFIRMING;
}

static void count_state(struct resyncs *resyncs, enum exchange_state state, int by)
{
    if (state == EXCHANGE_READING) resyncs->reading = (unsigned)((int)resyncs->reading + by);
    if (is_held(state)) resyncs->held = (unsigned)((int)resyncs->held + by);
}

// The one place that changes the state; keeps the counts.
static void set_state(struct resyncs *resyncs, struct exchange *exchange, enum exchange_state state)
{
    // clang-format off
    static const unsigned allowed[] = {
        [EXCHANGE_WAITING] = 1u << EXCHANGE_READING,
        [EXCHANGE_READING] = 1u << EXCHANGE_COMPARING,
        [EXCHANGE_COMPARING] = 1u << EXCHANGE_CONFIRMING | 1u << EXCHANGE_RESTING,
        [EXCHANGE_CONFIRMING] = 0,
        [EXCHANGE_RESTING] = 0,
    };
    // clang-format on
    assert(allowed[exchange->state] & 1u << state);
    assert(state <= EXCHANGE_COMPARING || exchange->comparing == 0);
    count_state(resyncs, exchange->state, -1);
    exchange->state = state;
    count_state(resyncs, exchange->state, 1);
}

static void drop(struct resyncs *resyncs, struct exchange **link)
{
    struct exchange *exchange = *link;
    *link = exchange->next;
    count_state(resyncs, exchange->state, -1);
    digest_exchange_destroy(exchange->resync);
    mem_free(exchange->unread);
    mem_free(exchange);
}

void resyncs_destroy(struct resyncs *resyncs)
{
    if (!resyncs) return;
    while (resyncs->first)
        drop(resyncs, &resyncs->first);
    mem_free(resyncs);
}

void resyncs_forget(struct resyncs *resyncs, struct tunnel_session_ref ref)
{
    struct exchange **link = find_link(resyncs, ref);
    if (!*link) return;
    drop(resyncs, link);
    pump(resyncs);
}

void resyncs_count_snapshot(struct resyncs *resyncs)
{
    metric_add(resyncs->full, 1);
}

// ---- answers -------------------------------------------------------------------------------------------------------

// The session, and its exchange with it, may end inside.
static void say(struct resyncs *resyncs, struct tunnel_session_ref ref, uint64_t sequence, const struct digest *digest)
{
    struct strbuf text;
    strbuf_init(&text, DIGEST_ANSWER_BYTES_MAX);
    if (digest_encode(digest, &text, NULL) == ERROR_NONE) {
        metric_add(resyncs->bytes_out, text.len);
        resyncs->options.answer(
            resyncs->options.ctx, ref,
            &(struct wire_ack){.type = WIRE_ACK_DIGEST, .sequence = sequence, .digest = strbuf_str(&text)});
    }
    strbuf_finish(&text);
}

static void confirm(struct resyncs *resyncs, struct exchange *exchange, enum digest_kind kind);

// Of what is over only that remains.
static void let_rest(struct resyncs *resyncs, struct exchange *exchange)
{
    digest_exchange_destroy(exchange->resync);
    exchange->resync = NULL;
    set_state(resyncs, exchange, EXCHANGE_RESTING);
}

// The answer that ends it, or goes on.
static void answer(struct resyncs *resyncs, struct exchange *exchange, const struct digest *digest)
{
    bool settles = digest->kind == DIGEST_MATCHED || digest->kind == DIGEST_DONE;
    bool confirms = !exchange->has_wanted || exchange->is_again;
    if (settles && confirms && exchange->state != EXCHANGE_CONFIRMING) {
        confirm(resyncs, exchange, digest->kind);
        return;
    }
    struct digest copy = *digest; // its views may live in the exchange
    struct tunnel_session_ref ref = exchange->ref;
    uint64_t sequence = exchange->sequence;
    struct metric *result = NULL;
    switch (digest->kind) {
    case DIGEST_MATCHED: result = resyncs->unchanged; break;
    case DIGEST_DONE: result = exchange->differs ? resyncs->differences : resyncs->unchanged; break;
    case DIGEST_LATER: result = resyncs->later; break;
    case DIGEST_SNAPSHOT: // counted when it begins
    default: break;
    }
    bool is_last = result || digest->kind == DIGEST_SNAPSHOT;
    if (result && (!exchange->is_again || result == resyncs->later)) metric_add(result, 1);
    if (is_last) {
        uint64_t us = clock_mono_us() - exchange->started_us;
        metric_add(resyncs->rounds, exchange->rounds);
        metric_observe(resyncs->seconds, (double)us / 1e6);
        log_info("resync", "compared", log_c("runtime", exchange->identity.runtime), log_uint("epoch", exchange->epoch),
                 log_uint("kind", digest->kind), log_uint("rounds", exchange->rounds), log_uint("us", us));
        if (settles && !confirms)
            let_rest(resyncs, exchange);
        else
            drop(resyncs, find_link(resyncs, ref));
    }
    say(resyncs, ref, sequence, &copy);
    if (is_last) pump(resyncs);
}

static void answer_word(struct resyncs *resyncs, struct exchange *exchange, enum digest_kind kind)
{
    answer(resyncs, exchange, &(struct digest){.kind = kind});
}

// ---- the store -----------------------------------------------------------------------------------------------------

// A question of an exchange that may be gone when it is answered.
struct question {
    struct resyncs *resyncs;
    uint64_t id; // of the exchange
    struct tunnel_session_ref ref;
    uint64_t sequence;
    enum digest_kind kind; // of the answer that waits
    size_t entry_count;
    uint8_t (*entries)[DIGEST_ENTRY_BYTES]; // ours
};

static struct question *question_of(struct resyncs *resyncs, const struct exchange *exchange)
{
    struct question *question = mem_zalloc(sizeof *question);
    *question =
        (struct question){.resyncs = resyncs, .id = exchange->id, .ref = exchange->ref, .sequence = exchange->sequence};
    return question;
}

static void on_confirmed(void *arg, const struct error *err)
{
    struct question *question = arg;
    struct resyncs *resyncs = question->resyncs;
    struct exchange *exchange = find_id(resyncs, question->id);
    enum digest_kind kind = err ? DIGEST_LATER : question->kind;
    mem_free(question);
    if (!exchange) return;
    if (err) log_warn("resync", "not_confirmed", log_c("runtime", exchange->identity.runtime), log_err(err));
    answer_word(resyncs, exchange, kind);
}

// An agent that was told that all is well does not compare again: so that comes after it is known here for good.
static void confirm(struct resyncs *resyncs, struct exchange *exchange, enum digest_kind kind)
{
    struct question *question = question_of(resyncs, exchange);
    question->kind = kind;
    set_state(resyncs, exchange, EXCHANGE_CONFIRMING);
    resyncs->options.store.confirm(resyncs->options.pg, exchange->identity.account_id,
                                   str_c(exchange->identity.runtime), exchange->epoch, exchange->sequence, on_confirmed,
                                   question);
}

static void on_tree(void *arg, const struct error *err, const struct digest_store_tree *tree)
{
    struct question *question = arg;
    struct resyncs *resyncs = question->resyncs;
    struct exchange *exchange = find_id(resyncs, question->id);
    mem_free(question);
    if (!exchange) return;
    set_state(resyncs, exchange, EXCHANGE_COMPARING);
    if (err || tree->is_fenced) {
        if (err) log_warn("resync", "tree_not_read", log_c("runtime", exchange->identity.runtime), log_err(err));
        answer_word(resyncs, exchange, DIGEST_LATER);
        return;
    }
    struct digest digest;
    digest_exchange_take_tree(exchange->resync, tree, &digest);
    answer(resyncs, exchange, &digest);
    pump(resyncs);
}

static void read_tree(struct resyncs *resyncs, struct exchange *exchange)
{
    set_state(resyncs, exchange, EXCHANGE_READING);
    resyncs->options.store.tree(resyncs->options.pg, exchange->identity.account_id, str_c(exchange->identity.runtime),
                                exchange->epoch, on_tree, question_of(resyncs, exchange));
}

// The place of one that has been silent for long, for those that wait.
static void evict(struct resyncs *resyncs)
{
    uint64_t now_ms = clock_mono_ms();
    for (struct exchange **link = &resyncs->first; *link; link = &(*link)->next) {
        bool may_go = (*link)->state == EXCHANGE_COMPARING || (*link)->state == EXCHANGE_CONFIRMING;
        if (!may_go || (*link)->heard_ms + IDLE_MS > now_ms) continue;
        drop(resyncs, link);
        return;
    }
}

// Starts those that wait, as far as there is room.
static void pump(struct resyncs *resyncs)
{
    if (resyncs->held >= HELD_MAX) evict(resyncs);
    for (struct exchange *exchange = resyncs->first; exchange; exchange = exchange->next) {
        if (resyncs->reading >= READERS_MAX || resyncs->held >= HELD_MAX) return;
        if (exchange->state == EXCHANGE_WAITING) read_tree(resyncs, exchange);
    }
}

// ---- leaves --------------------------------------------------------------------------------------------------------

static void tell_gone(struct resyncs *resyncs, const struct exchange *exchange, uint64_t sequence,
                      const struct digest_store_row *row)
{
    const struct report report = {
        .type = REPORT_DELETED,
        .source = REPORT_FROM_TUNNEL,
        .account_id = str_c(exchange->identity.account_id),
        .runtime = str_c(exchange->identity.runtime),
        .epoch = exchange->epoch,
        .sequence = sequence,
        .cluster = row->cluster,
        .ref = row->ref,
        .observed_at_ms = clock_wall_ms(),
    };
    resyncs->options.on_gone(resyncs->options.ctx, &report);
}

// False: the session ended meanwhile.
static bool say_wanted(struct resyncs *resyncs, uint64_t id, const struct question *question,
                       const struct digest_exchange_difference *difference)
{
    for (size_t i = 0; i < difference->wanted_count; i += DIGEST_WANTED_MAX) {
        size_t left = difference->wanted_count - i;
        say(resyncs, question->ref, question->sequence,
            &(struct digest){.kind = DIGEST_WANTED,
                             .items = difference->wanted + i * DIGEST_KEY_BYTES,
                             .count = left < DIGEST_WANTED_MAX ? left : DIGEST_WANTED_MAX});
    }
    return find_id(resyncs, id) != NULL;
}

static void settle(struct resyncs *resyncs, struct exchange *exchange, struct question *question,
                   struct digest_store_row *rows, size_t count)
{
    uint64_t id = exchange->id;
    struct digest_exchange_difference difference;
    digest_exchange_compare(question->entries, question->entry_count, rows, count, &difference);
    if (difference.wanted_count || difference.gone_count) exchange->differs = true;
    if (difference.wanted_count) exchange->has_wanted = true;
    if (difference.is_unsure) {
        answer_word(resyncs, exchange, DIGEST_SNAPSHOT);
    } else {
        metric_add(resyncs->wanted, difference.wanted_count);
        metric_add(resyncs->gone, difference.gone_count);
        metric_add(resyncs->kept, difference.kept_count);
        for (size_t i = 0; i < difference.gone_count; i++)
            tell_gone(resyncs, exchange, question->sequence, difference.gone[i]);
        struct digest next;
        if (say_wanted(resyncs, id, question, &difference) && exchange->comparing == 0 &&
            digest_exchange_next(exchange->resync, &next))
            answer(resyncs, exchange, &next);
    }
    mem_free(difference.wanted);
    mem_free(difference.gone);
}

static void on_rows(void *arg, const struct error *err, const struct digest_store_row *rows, size_t count)
{
    struct question *question = arg;
    struct resyncs *resyncs = question->resyncs;
    struct exchange *exchange = find_id(resyncs, question->id);
    if (exchange) {
        exchange->comparing--;
        exchange->comparing_entries -= question->entry_count;
        if (err) {
            log_warn("resync", "rows_not_read", log_c("runtime", exchange->identity.runtime), log_err(err));
            answer_word(resyncs, exchange, DIGEST_LATER);
        } else {
            struct digest_store_row *copies = mem_array(count + 1, sizeof *copies);
            memcpy(copies, rows, count * sizeof *copies);
            settle(resyncs, exchange, question, copies, count);
            mem_free(copies);
        }
    }
    mem_free(question->entries);
    mem_free(question);
}

static void compare_leaves(struct resyncs *resyncs, struct exchange *exchange, const struct digest *message)
{
    struct question *question = question_of(resyncs, exchange);
    question->entry_count = message->count;
    question->entries = mem_alloc(message->count * DIGEST_ENTRY_BYTES + 1);
    memcpy(question->entries, message->items, message->count * DIGEST_ENTRY_BYTES);
    exchange->comparing++;
    exchange->comparing_entries += message->count;
    resyncs->options.store.rows(resyncs->options.pg, exchange->identity.account_id, str_c(exchange->identity.runtime),
                                message->leaves.bits, str_c(exchange->unread), on_rows, question);
}

// ---- what agents say -----------------------------------------------------------------------------------------------

static void on_probed(void *arg, const struct error *err, bool holds_any)
{
    struct question *question = arg;
    if (!err && !holds_any)
        say(question->resyncs, question->ref, question->sequence, &(struct digest){.kind = DIGEST_SNAPSHOT});
    mem_free(question);
}

static void probe(struct resyncs *resyncs, const struct tunnel_session_info *session, uint64_t sequence)
{
    struct question *question = mem_zalloc(sizeof *question);
    *question = (struct question){.resyncs = resyncs, .ref = session->ref, .sequence = sequence};
    resyncs->options.store.holds_any(resyncs->options.pg, session->identity.account_id,
                                     str_c(session->identity.runtime), on_probed, question);
}

static void begin(struct resyncs *resyncs, const struct tunnel_session_info *session, const struct wire_report *record,
                  const struct digest *root)
{
    struct exchange **link = find_link(resyncs, session->ref);
    bool is_again = *link && ((*link)->state == EXCHANGE_RESTING || (*link)->is_again);
    if (*link) drop(resyncs, link);
    struct exchange *exchange = mem_zalloc(sizeof *exchange);
    *exchange =
        (struct exchange){.id = ++resyncs->last_id,
                          .ref = session->ref,
                          .identity = session->identity,
                          .epoch = session->epoch,
                          .sequence = record->sequence,
                          .resync = digest_exchange_create(root),
                          .unread = record->unread.len ? mem_strndup(record->unread.at, record->unread.len) : NULL,
                          .is_again = is_again,
                          .rounds = 1,
                          .started_us = clock_mono_us(),
                          .heard_ms = clock_mono_ms()};
    for (link = &resyncs->first; *link;)
        link = &(*link)->next;
    *link = exchange;
    pump(resyncs);
}

static void go_on(struct resyncs *resyncs, struct exchange *exchange, const struct digest *digest, struct error *err)
{
    struct digest next;
    switch (digest->kind) {
    case DIGEST_BRANCHES_SENT:
        if (exchange->state != EXCHANGE_COMPARING ||
            digest_exchange_take_branches(exchange->resync, digest, &next, err))
            break;
        answer(resyncs, exchange, &next);
        return;
    case DIGEST_LEAVES_SENT:
        if (exchange->state != EXCHANGE_COMPARING || exchange->comparing >= COMPARING_MAX ||
            exchange->comparing_entries >= COMPARING_ENTRIES_MAX ||
            digest_exchange_take_leaves(exchange->resync, digest, err))
            break;
        compare_leaves(resyncs, exchange, digest);
        return;
    default: break;
    }
    log_limited(LOG_WARN, "resync", "digest_out_of_order", str_c(exchange->identity.account_id),
                str_c(exchange->identity.runtime), log_c("account", exchange->identity.account_id),
                log_c("runtime", exchange->identity.runtime), log_uint("kind", digest->kind), log_err(err));
    answer_word(resyncs, exchange, DIGEST_LATER);
}

void resyncs_take(struct resyncs *resyncs, const struct tunnel_session_info *session, const struct wire_report *record)
{
    struct digest digest;
    struct error err = {0};
    metric_add(resyncs->bytes_in, record->digest.len);
    if (digest_decode((const uint8_t *)record->digest.at, record->digest.len, &digest, &err) != ERROR_NONE) {
        log_limited(LOG_WARN, "resync", "digest_malformed", str_c(session->identity.account_id),
                    str_c(session->identity.runtime), log_c("account", session->identity.account_id),
                    log_c("runtime", session->identity.runtime), log_err(&err));
        say(resyncs, session->ref, record->sequence, &(struct digest){.kind = DIGEST_SNAPSHOT});
        return;
    }
    if (digest.kind == DIGEST_PROBE) {
        probe(resyncs, session, record->sequence);
        return;
    }
    if (digest.kind == DIGEST_ROOT) {
        begin(resyncs, session, record, &digest);
        return;
    }
    struct exchange *exchange = *find_link(resyncs, session->ref);
    if (!exchange || exchange->state == EXCHANGE_RESTING) return; // it was given up; the agent asks again
    exchange->sequence = record->sequence;
    exchange->heard_ms = clock_mono_ms();
    exchange->rounds++;
    go_on(resyncs, exchange, &digest, &err);
}
