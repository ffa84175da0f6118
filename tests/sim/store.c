#include "tests/sim/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/sim/ledger.h"
#include "tests/sim/schedule.h"
#include "tunnel/wire/digest_tree.h"

enum { ROWS_MAX = 2 * CLUSTER_OBJECTS_MAX };

struct place { // in the order
    uint64_t epoch, sequence;
};

struct row {
    char kind[32], ns[32], name[32], uid[32], version[32];
    bool is_deleted, has_entry;
    uint64_t content; // "generation" of the manifest
    uint8_t entry[DIGEST_ENTRY_BYTES];
    struct place place;
};

struct store {
    const struct cluster *truth;
    struct store_mutations mutations;
    struct row rows[ROWS_MAX];
    size_t row_count;
    uint64_t epochs, fence_epoch;
    struct place snapshot, snapshot_end;
    bool away, faults;
    struct report_transaction *orphans; // of connections that are gone
};

struct store_connection {
    struct store *store;
    struct report_transaction *transactions;
    struct question *questions;
};

static bool is_newer(struct place a, struct place b)
{
    return a.epoch != b.epoch ? a.epoch > b.epoch : a.sequence > b.sequence;
}

// ---- rows -------------------------------------------------------------------------------------

static bool is_row(const struct row *row, const struct report *report)
{
    return str_eq(report->ref.kind, str_c(row->kind)) && str_eq(report->ref.ns, str_c(row->ns)) &&
           str_eq(report->ref.name, str_c(row->name));
}

static void copy_text(char to[32], struct str from)
{
    snprintf(to, 32, "%.*s", STR_ARG(from));
}

static struct row *get_row(struct store *store, const struct report *report)
{
    for (size_t i = 0; i < store->row_count; i++)
        if (is_row(&store->rows[i], report)) return &store->rows[i];
    if (store->row_count == ROWS_MAX) {
        fprintf(stderr, "sim: more rows than the store holds\n");
        abort();
    }
    struct row *row = &store->rows[store->row_count++];
    *row = (struct row){.is_deleted = true};
    copy_text(row->kind, report->ref.kind);
    copy_text(row->ns, report->ref.ns);
    copy_text(row->name, report->ref.name);
    return row;
}

static uint64_t content_of(struct str manifest)
{
    static const char key[] = "\"generation\":";
    const char *at = memmem(manifest.at, manifest.len, key, sizeof key - 1);
    return at ? strtoull(at + sizeof key - 1, NULL, 10) : 0;
}

// Every change of a row comes by here.
static void check_change(const struct row *row, struct place place, uint64_t content)
{
    if (!is_newer(place, row->place))
        ledger_violation("once, newest wins: %s %s of (%llu, %llu) is changed by (%llu, %llu)", row->kind, row->name,
                         (unsigned long long)row->place.epoch, (unsigned long long)row->place.sequence,
                         (unsigned long long)place.epoch, (unsigned long long)place.sequence);
    if (content && content < row->content)
        ledger_violation("newest wins: %s %s goes from state %llu back to %llu", row->kind, row->name,
                         (unsigned long long)row->content, (unsigned long long)content);
}

static void delete_row(struct store *store, struct row *row, struct place place, const char *by)
{
    if (!row->is_deleted && cluster_is_alive(store->truth, str_c(row->uid)))
        ledger_violation(
            "nothing is deleted for being absent: %s %s (%s) is there, and is deleted by %s of (%llu, %llu)", row->kind,
            row->name, row->uid, by, (unsigned long long)place.epoch, (unsigned long long)place.sequence);
    row->is_deleted = true;
    row->has_entry = false;
    row->place = place;
}

static bool may_change(const struct store *store, const struct row *row, struct place place)
{
    return store->mutations.no_order || (place.epoch >= store->fence_epoch && is_newer(place, row->place));
}

static enum report_result apply_object(struct store *store, const struct report *report, struct place place)
{
    struct row *row = get_row(store, report);
    if (!may_change(store, row, place)) return REPORT_UNCHANGED;
    if (report->type == REPORT_DELETED) {
        check_change(row, place, 0);
        delete_row(store, row, place, "a tombstone");
        return REPORT_APPLIED;
    }
    uint64_t content = content_of(report->manifest);
    check_change(row, place, content);
    copy_text(row->uid, report->ref.uid);
    copy_text(row->version, report->ref.version);
    memcpy(row->entry, report->content_hash, sizeof row->entry);
    row->content = content;
    row->has_entry = true;
    row->is_deleted = false;
    row->place = place;
    return REPORT_APPLIED;
}

// Whether the row's kind is among those that the agent may not read, a line "<group>/<kind>" each.
static bool is_unread(const struct row *row, struct str unread)
{
    for (struct str line; unread.len;) {
        if (!str_cut(&unread, '\n', &line)) {
            line = unread;
            unread = STR_EMPTY;
        }
        struct str group;
        if (str_cut(&line, '/', &group) && str_eq(line, str_c(row->kind))) return true;
    }
    return false;
}

// ---- snapshots --------------------------------------------------------------------------------

static enum report_result begin_snapshot(struct store *store, struct place place)
{
    if (!is_newer(place, store->snapshot) || place.epoch < store->fence_epoch) return REPORT_UNCHANGED;
    store->snapshot = place;
    if (place.epoch > store->fence_epoch) store->fence_epoch = place.epoch;
    return REPORT_UNCHANGED;
}

static enum report_result end_snapshot(struct store *store, const struct report *report, struct place place)
{
    uint64_t found = 0;
    for (size_t i = 0; i < store->row_count; i++)
        found += !store->rows[i].is_deleted && is_newer(store->rows[i].place, store->snapshot);
    if (!is_newer(place, store->snapshot_end)) return REPORT_UNCHANGED;
    bool is_open = store->snapshot.epoch == place.epoch && store->snapshot.sequence < place.sequence &&
                   place.epoch >= store->fence_epoch;
    if (!(is_open && found == report->count) && !store->mutations.incomplete_ends) return REPORT_RESYNC;
    store->snapshot_end = place;
    for (size_t i = 0; i < store->row_count; i++)
        if (!store->rows[i].is_deleted && is_newer(store->snapshot, store->rows[i].place) &&
            !is_unread(&store->rows[i], report->unread))
            delete_row(store, &store->rows[i], place, "the end of a snapshot");
    return REPORT_UNCHANGED;
}

static enum report_result apply(struct store *store, const struct report *report)
{
    struct place place = {report->epoch, report->sequence};
    switch (report->type) {
    case REPORT_OBJECT:
    case REPORT_DELETED: return apply_object(store, report, place);
    case REPORT_SNAPSHOT_BEGIN: return begin_snapshot(store, place);
    case REPORT_SNAPSHOT_END: return end_snapshot(store, report, place);
    case REPORT_CLUSTER:
    case REPORT_KUBERNETES_EVENT: return REPORT_UNCHANGED;
    case REPORT_KEPT_OUT: break; // nothing of a simulated cluster is
    }
    ledger_violation("the platform refuses a record: %.*s", STR_ARG(report->errors));
    return REPORT_UNCHANGED;
}

// ---- transactions -----------------------------------------------------------------------------

struct report_transaction {
    struct store *store;
    struct report_transaction *next, **link; // of its connection, or the orphans
    struct report *reports;
    char *texts;
    size_t count;
    struct report_outcome *outcomes;
    bool is_submitted, is_committed;
    report_store_ready on_ready;
    report_store_done on_done; // NULL: nobody waits for it
    void *arg;
};

static void transaction_link(struct report_transaction **list, struct report_transaction *transaction)
{
    transaction->next = *list;
    transaction->link = list;
    if (*list) (*list)->link = &transaction->next;
    *list = transaction;
}

static void transaction_unlink(struct report_transaction *transaction)
{
    *transaction->link = transaction->next;
    if (transaction->next) transaction->next->link = transaction->link;
}

static void transaction_free(struct report_transaction *transaction)
{
    transaction_unlink(transaction);
    schedule_forget(transaction);
    mem_free(transaction->reports);
    mem_free(transaction->texts);
    mem_free(transaction->outcomes);
    mem_free(transaction);
}

static void on_ready_later(void *arg)
{
    struct report_transaction *transaction = arg;
    transaction->on_ready(transaction->arg);
}

static struct report_transaction *prepare(struct pg *pg, const struct report_kinds *kinds, struct manifest_known *known,
                                          const struct report *reports, size_t count, report_store_ready on_ready,
                                          void *arg)
{
    (void)kinds, (void)known;
    struct store_connection *connection = (struct store_connection *)pg;
    struct report_transaction *transaction = mem_zalloc(sizeof *transaction);
    *transaction =
        (struct report_transaction){.store = connection->store, .count = count, .on_ready = on_ready, .arg = arg};
    transaction_link(&connection->transactions, transaction);
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += report_text_bytes(&reports[i]);
    transaction->reports = mem_array(count, sizeof *reports);
    transaction->outcomes = mem_array(count, sizeof *transaction->outcomes);
    transaction->texts = mem_alloc(bytes);
    char *to = transaction->texts;
    for (size_t i = 0; i < count; i++)
        to = report_copy_into(&transaction->reports[i], &reports[i], to);
    schedule_after(schedule_below(3), on_ready_later, transaction);
    return transaction;
}

static void commit(struct report_transaction *transaction)
{
    for (size_t i = 0; i < transaction->count; i++) {
        const struct report *report = &transaction->reports[i];
        transaction->outcomes[i] = (struct report_outcome){.result = apply(transaction->store, report)};
        ledger_commit(report->epoch, report->sequence);
    }
    transaction->is_committed = true;
}

static void transaction_answer(struct report_transaction *transaction, bool is_lost)
{
    struct error err;
    report_store_done on_done = transaction->on_done;
    transaction->on_done = NULL;
    if (is_lost) error_set(&err, ERROR_UNAVAILABLE, "the connection was lost");
    if (on_done)
        on_done(transaction->arg, is_lost ? &err : NULL, is_lost ? NULL : transaction->outcomes, transaction->count);
}

static void on_commit(void *arg)
{
    struct report_transaction *transaction = arg;
    struct store *store = transaction->store;
    bool fails = store->away || (store->faults && schedule_percent(5));
    bool is_lost = fails || (store->faults && schedule_percent(5));
    if (!fails && !transaction->is_committed) commit(transaction);
    transaction_answer(transaction, is_lost);
    transaction_free(transaction);
}

static void submit(struct report_transaction *transaction, report_store_done on_done, void *arg)
{
    transaction->is_submitted = true;
    transaction->on_done = on_done;
    transaction->arg = arg;
    uint64_t after_ms = schedule_spread(1, transaction->store->faults ? 1500 : 20);
    schedule_after(after_ms, on_commit, transaction);
}

static void on_early_answer(void *arg)
{
    struct report_transaction *transaction = arg;
    for (size_t i = 0; i < transaction->count; i++)
        transaction->outcomes[i] = (struct report_outcome){.result = REPORT_APPLIED};
    transaction_answer(transaction, false);
}

static void submit_mutated(struct report_transaction *transaction, report_store_done on_done, void *arg)
{
    submit(transaction, on_done, arg);
    if (transaction->store->mutations.early_answer) schedule_after(0, on_early_answer, transaction);
}

static void discard(struct report_transaction *transaction)
{
    if (transaction) transaction_free(transaction);
}

// ---- digests ----------------------------------------------------------------------------------

enum question_kind { QUESTION_TREE, QUESTION_CONFIRM, QUESTION_ANY, QUESTION_ROWS };

struct question {
    struct store_connection *connection;
    struct question *next, **link;
    enum question_kind kind;
    struct place place;
    uint8_t leaves[DIGEST_LEAVES / 8];
    char unread[256];
    digest_store_read on_read;
    digest_store_confirmed on_confirmed;
    digest_store_asked on_asked;
    digest_store_listed on_listed;
    void *arg;
};

static void question_free(struct question *question)
{
    *question->link = question->next;
    if (question->next) question->next->link = question->link;
    schedule_forget(question);
    mem_free(question);
}

static void answer_tree(const struct question *question, const struct error *err)
{
    struct store *store = question->connection->store;
    struct digest_tree sums = {0};
    struct digest_store_tree *tree = mem_zalloc(sizeof *tree);
    if (!err && question->place.epoch > store->fence_epoch) store->fence_epoch = question->place.epoch;
    tree->is_fenced = question->place.epoch < store->fence_epoch;
    for (size_t i = 0; i < store->row_count; i++) {
        const struct row *row = &store->rows[i];
        if (!row->has_entry) continue;
        digest_tree_toggle(&sums, row->entry);
        tree->leaf_rows[digest_entry_leaf(row->entry)]++;
        tree->rows++;
    }
    memcpy(tree->nodes, sums.leaves, sizeof tree->nodes);
    question->on_read(question->arg, err, err ? NULL : tree);
    mem_free(tree);
}

static void answer_rows(const struct question *question, const struct error *err)
{
    struct store *store = question->connection->store;
    struct digest_store_row *rows = mem_array(ROWS_MAX, sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < store->row_count; i++) {
        const struct row *row = &store->rows[i];
        unsigned leaf = digest_entry_leaf(row->entry);
        if (!row->has_entry || !(question->leaves[leaf / 8] >> leaf % 8 & 1)) continue;
        rows[count] = (struct digest_store_row){.cluster = STR("in-cluster"),
                                                .ref.group = STR("argoproj.io"),
                                                .ref.kind = str_c(row->kind),
                                                .ref.ns = str_c(row->ns),
                                                .ref.name = str_c(row->name),
                                                .ref.version = str_c(row->version),
                                                .ref.uid = str_c(row->uid),
                                                .is_unread = is_unread(row, str_c(question->unread))};
        memcpy(rows[count++].entry, row->entry, sizeof row->entry);
    }
    question->on_listed(question->arg, err, rows, err ? 0 : count);
    mem_free(rows);
}

static void answer_confirm(const struct question *question, const struct error *err)
{
    struct store *store = question->connection->store;
    if (!err && store->fence_epoch == question->place.epoch && is_newer(question->place, store->snapshot_end))
        store->snapshot_end = question->place;
    question->on_confirmed(question->arg, err);
}

static void answer_any(const struct question *question, const struct error *err)
{
    const struct store *store = question->connection->store;
    bool any = false;
    for (size_t i = 0; i < store->row_count; i++)
        any = any || !store->rows[i].is_deleted;
    question->on_asked(question->arg, err, any);
}

static void question_answer(struct question *question, bool is_lost)
{
    struct question copy = *question;
    struct error err;
    question_free(question);
    if (is_lost) error_set(&err, ERROR_UNAVAILABLE, "the connection was lost");
    switch (copy.kind) {
    case QUESTION_TREE: answer_tree(&copy, is_lost ? &err : NULL); break;
    case QUESTION_CONFIRM: answer_confirm(&copy, is_lost ? &err : NULL); break;
    case QUESTION_ANY: answer_any(&copy, is_lost ? &err : NULL); break;
    case QUESTION_ROWS: answer_rows(&copy, is_lost ? &err : NULL); break;
    }
}

static void on_question(void *arg)
{
    struct question *question = arg;
    const struct store *store = question->connection->store;
    question_answer(question, store->away || (store->faults && schedule_percent(5)));
}

static void put_question(struct pg *pg, struct question values)
{
    struct store_connection *connection = (struct store_connection *)pg;
    struct question *question = mem_dup(&values, sizeof values);
    question->connection = connection;
    question->next = connection->questions;
    question->link = &connection->questions;
    if (question->next) question->next->link = &question->next;
    connection->questions = question;
    schedule_after(schedule_spread(1, connection->store->faults ? 800 : 20), on_question, question);
}

static void read_tree(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch,
                      digest_store_read on_done, void *arg)
{
    (void)account_id;
    (void)runtime;
    put_question(pg, (struct question){.kind = QUESTION_TREE, .place.epoch = epoch, .on_read = on_done, .arg = arg});
}

static void confirm(struct pg *pg, const char *account_id, struct str runtime, uint64_t epoch, uint64_t sequence,
                    digest_store_confirmed on_done, void *arg)
{
    (void)account_id;
    (void)runtime;
    put_question(pg, (struct question){
                         .kind = QUESTION_CONFIRM, .place = {epoch, sequence}, .on_confirmed = on_done, .arg = arg});
}

static void holds_any(struct pg *pg, const char *account_id, struct str runtime, digest_store_asked on_done, void *arg)
{
    (void)account_id;
    (void)runtime;
    put_question(pg, (struct question){.kind = QUESTION_ANY, .on_asked = on_done, .arg = arg});
}

static void read_rows(struct pg *pg, const char *account_id, struct str runtime,
                      const uint8_t leaves[DIGEST_STORE_LEAVES / 8], struct str unread, digest_store_listed on_done,
                      void *arg)
{
    (void)account_id;
    (void)runtime;
    struct question question = {.kind = QUESTION_ROWS, .on_listed = on_done, .arg = arg};
    memcpy(question.leaves, leaves, sizeof question.leaves);
    snprintf(question.unread, sizeof question.unread, "%.*s", STR_ARG(unread));
    put_question(pg, question);
}

const struct intake_store store_functions = {.prepare = prepare,
                                             .submit = submit_mutated,
                                             .discard = discard,
                                             .digests = {read_tree, confirm, holds_any, read_rows}};

// ---- life -------------------------------------------------------------------------------------

struct store *store_create(const struct cluster *truth, const struct store_mutations *mutations)
{
    struct store *store = mem_zalloc(sizeof *store);
    store->truth = truth;
    store->mutations = *mutations;
    return store;
}

void store_destroy(struct store *store)
{
    while (store->orphans)
        transaction_free(store->orphans);
    mem_free(store);
}

uint64_t store_next_epoch(struct store *store)
{
    return ++store->epochs;
}

void store_set_away(struct store *store, bool away)
{
    store->away = away;
}

void store_set_faults(struct store *store, bool faults)
{
    store->faults = faults;
}

struct store_connection *store_connect(struct store *store)
{
    struct store_connection *connection = mem_zalloc(sizeof *connection);
    connection->store = store;
    return connection;
}

// The server goes on with what it was sent.
static void let_go(struct report_transaction *transaction)
{
    struct store *store = transaction->store;
    transaction_unlink(transaction);
    transaction_link(&store->orphans, transaction);
    transaction_answer(transaction, true);
    transaction->on_done = NULL;
}

static struct report_transaction *find_submitted(const struct store_connection *connection)
{
    struct report_transaction *transaction = connection->transactions;
    while (transaction && !transaction->is_submitted)
        transaction = transaction->next;
    return transaction;
}

void store_disconnect(struct store_connection *connection)
{
    // An answer may discard others.
    for (struct report_transaction *transaction; (transaction = find_submitted(connection));)
        let_go(transaction);
    while (connection->questions)
        question_answer(connection->questions, true);
}

void store_connection_free(struct store_connection *connection)
{
    assert(!connection->transactions && !connection->questions);
    mem_free(connection);
}

struct pg *store_connection_pg(struct store_connection *connection)
{
    return (struct pg *)connection;
}

bool store_equals_truth(const struct store *store, char *why, size_t why_bytes)
{
    size_t count, matching = 0, alive = 0;
    const struct cluster_object *objects = cluster_objects(store->truth, &count);
    for (size_t i = 0; i < count; i++)
        alive += objects[i].exists;
    for (size_t i = 0; i < store->row_count; i++) {
        const struct row *row = &store->rows[i];
        if (row->is_deleted) continue;
        const struct cluster_object *object =
            cluster_find(store->truth, str_c(row->kind), str_c(row->ns), str_c(row->name));
        if (!object || !object->exists || strcmp(object->uid, row->uid) != 0 || object->version != row->content) {
            snprintf(why, why_bytes, "%s %s is held in state %llu as %s", row->kind, row->name,
                     (unsigned long long)row->content, row->uid);
            return false;
        }
        matching++;
    }
    snprintf(why, why_bytes, "%zu objects exist, %zu are held", alive, matching);
    return matching == alive;
}
