// config: settings from one table: file, environment and flags (the later wins), all errors
// reported at once, unknown keys refused. The table is also what --help, --print-config and the
// example file are made of. Values land in a plain struct of the program's own by offset. Used at
// start and on reload; one thread.
//
// File: UTF-8 lines `name = value`, `#` starts a comment line. Environment: CULVERT_ + the name in
// capitals with `.` as `_` (or the entry's env). Flags: --name=value or --name value; a boolean
// flag may stand alone.
#ifndef CULVERT_BASE_CONFIG_CONFIG_H
#define CULVERT_BASE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

enum config_type {
    CONFIG_STRING,   // char *, never NULL
    CONFIG_PATH,     // char *, never NULL; file must be readable when not empty
    CONFIG_ADDRESS,  // char *, host:port
    CONFIG_BOOL,     // bool
    CONFIG_INT,      // int64_t
    CONFIG_BYTES,    // int64_t, bytes
    CONFIG_DURATION, // int64_t, milliseconds
    CONFIG_CHOICE,   // char *, one of `choices`
};

struct config_entry {
    const char *name; // "api.listen"
    enum config_type type;
    size_t offset;       // offsetof(struct x_config, field)
    const char *def;     // in the file's notation; NULL: required
    int64_t min, max;    // for the numeric types; both 0: unbounded
    const char *choices; // "debug|info|warn|error"
    bool reloadable;     // takes effect on SIGHUP
    bool secret;         // never printed (connection strings with passwords); value may be "file:/path"
    const char *help;    // one sentence
};

// Settings of one noun, under one heading.
struct config_section {
    const char *title;
    const struct config_entry *entries;
    size_t count;
    // What several settings must be together: adds a line a complaint. Called once each value by
    // itself is right, so that no text is NULL. May be NULL.
    void (*check)(const void *values, struct strbuf *problems);
};

// In the initializer of a section: the entries of an array and how many they are.
#define CONFIG_ENTRIES(array) .entries = (array), .count = sizeof(array) / sizeof *(array)

struct config_table {
    const struct config_section *const *sections;
    size_t section_count;
    const char *program;    // "culvertd"
    const char *env_prefix; // "CULVERT_"
};

// Fills *values (zeroed by the caller) from defaults, file (NULL: none), the environment and argv's
// flags that the table knows. argv[0] is skipped; words that are no flags go to out_words (argc
// slots, may be NULL). ERROR_INVALID: problems holds every complaint, a line each, with file:line
// or the variable's name.
MUST_CHECK enum error_code config_load(const struct config_table *table, const char *file, int argc, char **argv,
                                       void *values, struct strbuf *problems, const char **out_words,
                                       int *out_word_count);
void config_release(const struct config_table *table, void *values);
void config_print(const struct config_table *table, const void *values, struct strbuf *out);
void config_print_example(const struct config_table *table, struct strbuf *out);
void config_print_help(const struct config_table *table, struct strbuf *out);

#endif
