// config_table: what settings a program has: their names, types, bounds and help, by section.
// Constant data of the program; base/config/config.h loads and prints what it says.
#ifndef CULVERT_BASE_CONFIG_CONFIG_TABLE_H
#define CULVERT_BASE_CONFIG_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    size_t offset;       // offsetof(struct x_settings, field), in the section's struct
    const char *def;     // in the file's notation; NULL: required
    int64_t min, max;    // for the numeric types; both 0: unbounded
    const char *choices; // "debug|info|warn|error"
    bool reloadable;     // takes effect on SIGHUP
    bool secret;         // never printed (connection strings with passwords); value may be "file:/path"
    const char *help;    // one sentence
};

struct config;

// Settings of one noun, under one heading: one struct (base/config/config.h, CONFIG_SECTION).
struct config_section {
    const char *title;
    size_t size; // of the struct
    const struct config_entry *entries;
    size_t count;
    // What several settings must be together, those of other sections included: adds a line a
    // complaint. Called once each value by itself is right, so that no text is NULL. May be NULL.
    void (*check)(const struct config *config, struct strbuf *problems);
};

// In the initializer of a section: the entries of an array and how many they are.
#define CONFIG_ENTRIES(array) .entries = (array), .count = sizeof(array) / sizeof *(array)

struct config_table {
    const struct config_section *const *sections;
    size_t section_count;
    const char *program;    // "culvertd"
    const char *env_prefix; // "CULVERT_"
};

#endif
