// live_window: the objects that a subscription follows: their ids, in the order of the argument,
// and a digest of what the client was last sent of each. And the resolver of subscription fields
// that are windows of a declared list (storage/sql/reads.awk). On its loop.
#ifndef CULVERT_API_LIVE_LIVE_WINDOW_H
#define CULVERT_API_LIVE_LIVE_WINDOW_H

#include "api/graphql/execution.h"
#include "api/live/change.h"
#include "base/table.h"

enum { LIVE_DELTAS_MAX = 200 }; // of one event, and ids of one window

// Constant; gql_resolver.with.
struct live_window_type {
    const char *list;   // the field of Query whose filters and rights apply; it has a filter `ids`
    const char *object; // in whose place it stands, where bindings depend on that; NULL: list
    // Of changes that are about its rows. An id is RUNTIME/NAMESPACE/NAME.
    const char *group, *kind;
    const char *id_sql; // the id of a row
    const char *always; // a boolean filter that is set where the field takes no filters; NULL: none
};

struct live_key {
    struct table_node node;
    struct str id;
    uint64_t state; // digest of its text as it was sent; 0: the client knows that it is not there
    bool is_dirty, is_asked, is_seen;
};

struct live_window {
    const struct live_window_type *type; // NULL: not set yet
    struct live_key *keys;
    size_t count, dirty;
    struct table by_id;
    char *texts;
};

// One execution of a subscription's operation (api_request.live).
struct live_event {
    struct live_window *window;
    bool is_first;
    bool is_reset;        // of the first: the client's state is not continued
    const uint32_t *hint; // of the first: what the client has, one a key of the window; NULL: reset
    size_t hint_count;
    // Of the first: may there be one more? Once, when the window is set.
    enum error_code (*admit)(void *arg, struct error *err);
    void *arg;
    // Results.
    size_t deltas;
    bool is_empty;    // nothing differs
    bool is_resolved; // the operation is a subscription
    bool has_failed;  // until it has not: what was asked for is dirty again
};

// count: 1 to LIVE_DELTAS_MAX; texts are copied. ERROR_INVALID: an id that is none, or twice.
MUST_CHECK enum error_code live_window_init(struct live_window *window, const struct live_window_type *type,
                                            const struct str *ids, size_t count, struct error *err);
void live_window_finish(struct live_window *window);
// Returns whether any key is dirty that was not.
bool live_window_mark(struct live_window *window, const struct change *change);
void live_window_mark_all(struct live_window *window);

// gql_resolver.resolve_selected of applicationsWindow(ids:) and application(runtime: namespace:
// name:); ctx is the struct api_request.
void live_window_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                         void *arg);

#endif
