// store_filter: the filters of a list as a client gave them (a JSON object, validated for types by
// the API), turned into values for a statement. Empty strings, empty lists and nulls are no filter.
// For the stores; one thread.
#ifndef CULVERT_STORAGE_SQL_STORE_FILTER_H
#define CULVERT_STORAGE_SQL_STORE_FILTER_H

#include <jansson.h>

#include "base/arena.h"
#include "storage/sql/store.h"

struct store_filter {
    struct arena *arena; // behind the values
    json_t *object;
    bool matches_nothing; // asks for something that no entity has here
};

// text: the object, or empty. The values live until close.
MUST_CHECK enum error_code store_filter_open(struct store_filter *filter, struct str text, struct error *err);
void store_filter_close(struct store_filter *filter);

struct pg_param store_filter_text(const struct store_filter *filter, const char *name); // '' for none
struct pg_param store_filter_bool(const struct store_filter *filter, const char *name);
// A list and its single-valued twin ("runtimes", "runtime"; NULL: it has none) as one JSON array;
// both given: both must hold.
struct pg_param store_filter_list(struct store_filter *filter, const char *many, const char *one);
// A time by RFC 3339, '' for none. ERROR_INVALID: it is no time.
MUST_CHECK enum error_code store_filter_time(const struct store_filter *filter, const char *name, struct pg_param *out,
                                             struct error *err);
// Of what nobody keeps: whoever asks for it finds nothing.
void store_filter_without(struct store_filter *filter, const char *const *names);
// The list (if any) must have the word, or nothing is found.
void store_filter_must_have(struct store_filter *filter, const char *many, struct str word);
// The limit of the window, or none at all.
struct pg_param store_filter_limit(const struct store_filter *filter, const char *limit);

#endif
