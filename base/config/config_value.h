// config_value: one setting's value, between its text in the file's notation and its field in the program's struct.
// Serves base/config/config.c and base/config/config_print.c; any thread.
#ifndef CULVERT_BASE_CONFIG_CONFIG_VALUE_H
#define CULVERT_BASE_CONFIG_CONFIG_VALUE_H

#include "base/config/config_table.h"
#include "base/error.h"
#include "base/str.h"

enum { CONFIG_NUMBER_BYTES = 32 }; // a number with its unit and the NUL

bool config_value_is_text(enum config_type type);
// Checks `text` (with a NUL behind it) against the entry and writes the field, which then owns a copy. The error's text
// may repeat it, so it is not for the values of secrets.
MUST_CHECK enum error_code config_value_set(const struct config_entry *entry, struct str text, void *values,
                                            struct error *err);
// The field of a text type; never NULL.
const char *config_value_text(const struct config_entry *entry, const void *values);
void config_value_print(const struct config_entry *entry, const void *values, struct strbuf *out);
// With the largest unit that divides it: "8MiB", "90s".
void config_value_format_number(enum config_type type, int64_t number, char *out, size_t cap);
// Wipes and frees the text; the field is NULL then.
void config_value_release(const struct config_entry *entry, void *values);

#endif
