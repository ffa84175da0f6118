// noun: what the command line can list, from modules/*/*.cli (format: cli/nouns.awk).
// Constant tables made at build; any thread.
#ifndef CULVERT_CLI_NOUN_H
#define CULVERT_CLI_NOUN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

enum column_kind {
    COLUMN_TEXT,
    COLUMN_AGE,   // RFC 3339, as the time that passed since: 5m, 3d4h
    COLUMN_TIME,  // RFC 3339, in seconds
    COLUMN_SHORT, // the first 12 characters
    COLUMN_LINE,  // the first line, at most 60 characters
};

// Paths are members joined by dots, in a row of the answer.
struct noun_column {
    const char *title, *path; // title NULL: the end of the table
    enum column_kind kind;
    bool is_wide; // -o wide alone
};

struct noun_filter {
    const char *option; // NULL: the end of the table; "-": cannot be given
    const char *name;   // in the argument "filters", or an argument of the root field
    const char *type;   // of GraphQL; a list begins with [
    bool is_argument;
    const char *value; // of an argument that is not given; NULL: it is left out
};

enum noun_find {
    NOUN_BY_PAGE, // no filter finds it: pages are read
    NOUN_BY_NAME, // by a filter
    NOUN_BY_ID,   // by a root field with the argument id
};

struct noun {
    const char *name;          // singular; NULL: the end of the table
    const char *const *others; // plural and short forms, ends with NULL
    const char *list;          // root field of Query
    bool is_paged;             // it gives a slice (edges, pageInfo); else an array
    const char *filter_type;   // NULL: no argument "filters"
    enum noun_find find;
    const char *find_name, *find_type;
    const char *label_filter;                              // NULL: no -l
    const char *window;                                    // NULL: none
    const char *runtime_path, *namespace_path, *name_path; // the first two may be NULL
    const struct noun_filter *filters;
    const struct noun_column *columns;
    const char *fields; // selection of a whole row
};

// A verb that runs an operation: mutation runOperation.
struct operation_verb {
    const char *name; // NULL: the end of the table
    const char *action;
    const char *nouns; // joined by commas; the first is the default
};

extern const struct noun nouns[];
extern const struct operation_verb operation_verbs[];

// By singular, plural or short form, in any case; NULL: unknown.
const struct noun *noun_find(const char *name);
// ERROR_INVALID names those that there are.
MUST_CHECK enum error_code noun_need(const char *name, const struct noun **out, struct error *err);
const struct noun_filter *noun_filter_find(const struct noun *noun, const char *option);

// The selection of a row: of all columns that are shown, and of what names it. Members that paths
// share are written once.
void noun_select_columns(const struct noun *noun, bool is_wide, struct strbuf *out);
// Of the paths given, ends with NULL.
void noun_select_paths(const char *const *paths, struct strbuf *out);

#endif
