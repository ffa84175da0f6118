// config: settings from one table: file, environment and flags (the later wins), all errors
// reported at once, unknown keys refused. The table is also what --help, --print-config and the
// example file are made of. Each section of it is a struct of its own, declared beside what uses
// it. Filled once, read-only afterwards, shared by all threads; a reload makes another one.
//
// File: UTF-8 lines `name = value`, `#` starts a comment line. Environment: CULVERT_ + the name in
// capitals with `.` as `_`. Flags: --name=value or --name value; a boolean flag may stand alone.
#ifndef CULVERT_BASE_CONFIG_CONFIG_H
#define CULVERT_BASE_CONFIG_CONFIG_H

#include "base/config/config_table.h"
#include "base/error.h"
#include "base/strbuf.h"

// In the header of struct NAME, which a section fills: declares NAME_section, to be defined in
// NAME.c, and NAME_of(), which gives the struct.
#define CONFIG_SECTION(name)                                                                                           \
    extern const struct config_section name##_section;                                                                 \
    static inline const struct name *name##_of(const struct config *config)                                            \
    {                                                                                                                  \
        return config_values(config, &name##_section);                                                                 \
    }                                                                                                                  \
    struct name

// Makes *out from defaults, file (NULL: none), the environment and argv's flags that the table
// knows; the table outlives it. argv[0] is skipped; words that are no flags go to out_words (argc
// slots, may be NULL). ERROR_INVALID: problems holds every complaint, a line each, with file:line
// or the variable's name; *out is NULL.
MUST_CHECK enum error_code config_load(const struct config_table *table, const char *file, int argc, char **argv,
                                       struct config **out, struct strbuf *problems, const char **out_words,
                                       int *out_word_count);
void config_destroy(struct config *config); // wipes texts; NULL is fine
// The struct of a section of the table; never NULL. Aborts if the table does not have the section.
const void *config_values(const struct config *config, const struct config_section *section);
// The number of a setting, for code that may not include the header of its section, as the server
// may not include a module's. Aborts if no section has one of that name.
int64_t config_number(const struct config *config, const char *name);
const struct config_table *config_table_of(const struct config *config);
void config_print(const struct config *config, struct strbuf *out);
void config_print_example(const struct config_table *table, struct strbuf *out);
void config_print_help(const struct config_table *table, struct strbuf *out);

// For checks: adds a line unless <what>.certificate_file and <what>.key_file are both set or both
// empty.
void config_check_pair(const char *what, const char *certificate, const char *key, struct strbuf *problems);
// Text of a secret setting: as it is, or the content of the file behind "file:" (at most 4096
// bytes). The caller frees it (mem_free_secret). ERROR_INVALID: the file cannot be read, is empty,
// too large or has a NUL byte.
MUST_CHECK enum error_code config_secret(const char *value, char **out, struct error *err);

#endif
