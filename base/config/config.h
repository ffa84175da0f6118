// config: settings from one table: file, environment and flags (the later wins), all errors reported at once,
// unknown keys refused. The table is also what --help, --print-config and the example file are made of.
// Values land in a plain struct of the program's own by offset. Used at start and on reload; one thread.
//
// File: UTF-8 lines `name = value`, `#` starts a comment line. Environment: CULVERT_ + the name in capitals with
// `.` as `_` (or the entry's env). Flags: --name=value or --name value; a boolean flag may stand alone.
#ifndef CULVERT_BASE_CONFIG_CONFIG_H
#define CULVERT_BASE_CONFIG_CONFIG_H

#include "base/config/config_table.h"
#include "base/error.h"
#include "base/strbuf.h"

// Fills *values (zeroed by the caller) from defaults, file (NULL: none), the environment and argv's flags that
// the table knows. argv[0] is skipped; words that are no flags go to out_words (argc slots, may be NULL).
// ERROR_INVALID: problems holds every complaint, a line each, with file:line or the variable's name.
MUST_CHECK enum error_code config_load(const struct config_table *table, const char *file, int argc, char **argv,
                                       void *values, struct strbuf *problems, const char **out_words,
                                       int *out_word_count);
void config_release(const struct config_table *table, void *values);
void config_print(const struct config_table *table, const void *values, struct strbuf *out);
void config_print_example(const struct config_table *table, struct strbuf *out);
void config_print_help(const struct config_table *table, struct strbuf *out);

#endif
